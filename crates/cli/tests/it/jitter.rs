//! Tests `curtail jitter`: its findings, its files, and its errors.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::harness::CURTAIL;
use crate::harness::serving::{Server, http, respond, serve, url};
use crate::harness::words::{Ran, folder, json_in, read, run};
use serde_json::Value;

/// Three queries in two classes.
const QUERIES: &str =
    "/a\n{\"path\": \"/b\", \"class\": \"term\"}\n{\"path\": \"/c\", \"class\": \"term\"}\n";

/// A finished run, with its directory.
struct Jitter {
    folder: tempfile::TempDir,
    ran: Ran,
}

/// Runs `curtail jitter` with queries against a target. It must end with `code`.
fn jitter(queries: &str, target: &str, line: &str, code: i32) -> Jitter {
    let folder =
        folder(&[("queries.txt", queries), ("bad.txt", "/fine\nno slash\n"), ("file", "")]);
    fs::create_dir(folder.path().join("load")).expect("a folder");
    fs::write(folder.path().join("load/latency.hlog"), "").expect("a file");
    let mut command = Command::new(CURTAIL);
    command.args(["jitter", target]).args(line.split_whitespace()).current_dir(folder.path());
    if !line.contains("--queries") {
        command.args(["--queries", "queries.txt"]);
    }
    let ran = run(&mut command).ends(code);
    Jitter { folder, ran }
}

impl Jitter {
    fn json(&self) -> Value {
        self.ran.json()
    }

    fn file(&self, name: &str) -> String {
        read(self.folder.path().join(name))
    }
}

/// A server whose response status depends on the number of the connection. Connections are numbered
/// from 0, and each turn opens one.
fn by_turn(status: fn(u32) -> &'static str) -> String {
    let turns = Arc::<AtomicU32>::default();
    let target = serve(move |stream| {
        let status = status(turns.fetch_add(1, Ordering::Relaxed));
        http(&stream, |stream| respond(stream, status));
    });
    format!("http://{target}/")
}

#[test]
fn executions_are_decomposed_and_written_for_other_verbs() {
    let ran = jitter(QUERIES, &Server::start(200).url, "--repeat 40 --floor 5% --json", 0);
    let found = ran.json();
    assert_eq!((&found["queries"], &found["unloaded"]), (&3.into(), &true.into()));
    assert!(found["repetitions"].as_u64().is_some_and(|times| times >= 40), "{found}");
    let mean = |part: &str| found[part]["mean"].as_f64().expect("a mean");
    let (service, p, j) = (mean("service_ns"), mean("P_ns"), mean("J_ns"));
    assert!(p > 0.0 && (service - p - j).abs() < 1.0, "{service} = {p} + {j}");
    let [low, high] = [0, 1].map(|at| found["hiccup"]["probability_ci95"][at].as_f64().unwrap());
    assert!(0.0 <= low && low <= high && high <= 1.0);
    assert!(found["floor"]["observed_ns"].as_u64().is_some_and(|ns| ns > 0), "{found}");
    let classes = found["classes"].as_array().expect("classes");
    assert_eq!(classes.iter().filter_map(|class| class["queries"].as_u64()).sum::<u64>(), 3);

    let executions = found["executions"].as_u64().expect("a number") as usize;
    for (file, lines) in [
        ("service.txt", executions),
        ("p.txt", 3),
        ("j.txt", executions),
        ("executions.csv", executions),
    ] {
        let text = ran.file(&format!("out/jitter/{file}"));
        assert_eq!(text.lines().count(), lines + 1, "{file} has a line that describes it");
    }
    let page = ran.file("out/jitter/report.html");
    for part in ["Figure 1.", "Figure 2.", "Figure 3.", "Table 1.", "Table 2.", "J of an execution"]
    {
        assert!(page.contains(part), "no {part}");
    }
    assert!(
        page.contains("<h2 id=\"classes\">") && page.contains(">term<"),
        "classes are separated"
    );
    assert!(!page.contains("NaN") && !page.contains("inf"), "all figures are numbers");
    for plot in ["ccdf.svg", "ranked.svg"] {
        let svg = ran.file(&format!("out/jitter/{plot}"));
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{plot}");
    }
    assert_eq!(found["samples"], "out/jitter/service.txt");
    // The simulator reads the samples unchanged.
    let line = "sim --shards 2 --utilization 0.3 --requests 2000 --service file:out/jitter/p.txt \
                --jitter file:out/jitter/j.txt";
    json_in(ran.folder.path(), line);
}

#[test]
fn people_get_a_table_and_a_verdict() {
    let args = "--repeat 20 --floor 5% --rate 500 --out here";
    let ran = jitter(QUERIES, &Server::start(200).url, args, 0);
    let stdout = &ran.ran.out;
    assert!(stdout.contains("3 queries, ") && stdout.contains(" executions at 500/s"), "{stdout}");
    for row in ["mean P + J", "hiccups seen", "the leaf's own", "the machine's", "term"] {
        assert!(stdout.contains(row), "no {row} in {stdout}");
    }
    let found: Value = serde_json::from_str(&ran.file("here/result.json")).expect("JSON");
    // If no hiccups were found, the text explains their upper bound.
    let explained = stdout.contains("none were found: the upper limit");
    assert_eq!(found["seen"]["bimodal"], !explained, "{stdout}");
}

#[test]
fn a_load_beyond_what_the_leaf_can_serve_is_reported() {
    let turn = Arc::<Mutex<()>>::default();
    // Serves one query at a time, 5 ms each.
    let url = url(move |stream| {
        let _one = turn.lock().expect("no server panics");
        std::thread::sleep(Duration::from_millis(5)); // tidy: real time
        respond(stream, "200 OK")
    });
    let why = "was not reached: of ";
    let ran = jitter(QUERIES, &url, "--repeat 40 --floor 5% --rate 500 --turn 1s", 1);
    assert!(ran.file("out/jitter/report.html").contains(why));
    let found: Value = serde_json::from_str(&ran.file("out/jitter/result.json")).expect("JSON");
    assert_eq!((&found["rate_reached"], &found["unloaded"]), (&false.into(), &false.into()));
    assert!(found["rate_missed"]["text"].as_str().is_some_and(|text| text.contains(why)));
    ran.ran.prints([why, "use a lower --rate"]).warns([why]);
    // A rate that the server can sustain.
    let args = "--repeat 20 --floor 5% --rate 60 --turn 1s --json";
    let found = jitter(QUERIES, &url, args, 0).json();
    assert_eq!((&found["rate_reached"], &found["rate_missed"]), (&true.into(), &Value::Null));
}

#[test]
fn bad_input_is_refused_before_anything_is_sent() {
    let server = Server::start(200);
    let url = server.url.as_str();
    for (target, line, why) in [
        ("ftp://x/", "", "ftp"),
        (url, "--repeat 0", "--repeat"),
        (url, "--repeat 9 --at-least 1s", "--at-least"),
        (url, "--floor none", "2%"),
        (url, "--turn 0s", "'--turn <SPAN>': write a time above zero"),
        (url, "--rate -1", "above 0"),
        (url, "--processors 1023", "--processors: this program may not run on processor 1023"),
        (url, "--out file", "--out file"),
        (url, "--out load", "--out load: it contains results of curtail load"),
        (url, "--rate 8 --turn 100ms", "use a longer --turn"),
        (url, "--keys 5", "write one line per query into --queries"),
        (url, "--queries bad.txt", "bad.txt:2: "),
        ("udp://127.0.0.1:9", "", "no queries that can be repeated"),
    ] {
        let code = if line == "--out file" { 3 } else { 2 };
        jitter(QUERIES, target, line, code).ran.warns([why]);
    }
    assert_eq!(server.answered(), 0);
}

/// None of these runs takes a whole turn.
#[test]
fn a_leaf_that_does_not_answer_well_is_given_up() {
    let failing = Server::start(503).url;
    let closing = url(|stream| {
        respond(stream, "200 OK\r\nconnection: close");
        false
    });
    std::thread::scope(|scope| {
        for (target, more, why) in [
            (&failing[..], "", ["no query to http", "status 503"]),
            ("http://127.0.0.1:1/", "", ["no query to http", "cannot connect"]),
            (
                &closing,
                "--rate 1000 --connections 2",
                ["let the server keep", "its connections open"],
            ),
        ] {
            scope.spawn(move || {
                let line = format!("--repeat 20 --turn 1h {more}");
                jitter(QUERIES, target, &line, 3).ran.warns(why);
            });
        }
    });
}

#[test]
fn a_query_that_always_fails_is_named_and_ends_the_run() {
    let target = serve(|stream| {
        let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
        let mut status = "";
        while let Some(Ok(line)) = lines.next() {
            if line.starts_with("GET") {
                status = if line.contains("/nope") { "404 Not Found" } else { "200 OK" };
            }
            if line.is_empty() && !respond(&stream, status) {
                return;
            }
        }
    });
    let url = format!("http://{target}/");
    // The turn ends as soon as the failure is certain.
    let ran = jitter("/a\n/nope\n", &url, "--repeat 20 --turn 1h --json", 3);
    // The results of the other query are kept.
    let found = ran.json();
    assert_eq!((&found["partial"], &found["queries"]), (&true.into(), &1.into()));
    assert!(ran.file("out/jitter/report.html").contains("Partial:"));
    let named = "query 2 of 2, `/nope`, never succeeded (status 404)";
    ran.ran.warns([named, "remove it from the file"]);
    // The text names what is unknown.
    jitter("/a\n/nope\n", &url, "--repeat 20 --turn 1h", 3)
        .ran
        .prints([" one at a time, not every query of the file", "no idle loop was run"])
        .omits([" 0 times", " 0 processors"]);
}

#[test]
fn queries_are_repeated_as_requested_if_a_turn_is_shorter_than_a_round() {
    let queries: String = (0..300).map(|n| format!("/{n}\n")).collect();
    let args = "--repeat 5 --turn 10ms --floor 5% --json";
    let found = jitter(&queries, &Server::start(200).url, args, 0).json();
    assert_eq!((&found["repetitions"], &found["enough"]), (&5.into(), &"at-most".into()));
    // There is at most one round of executions more than requested.
    let executions = found["executions"].as_u64().expect("a number");
    assert!((1_500..=1_875).contains(&executions), "{executions}");
    // Some of these turns have no query, by chance. That is not reported as a lack of responses.
    let args = "--repeat 2 --rate 8 --turn 130ms --floor 5% --json";
    jitter(QUERIES, &Server::start(200).url, args, 0);
}

#[test]
fn what_was_measured_before_a_leaf_failed_is_reported() {
    let url = by_turn(|turn| if turn < 2 { "200 OK" } else { "503 Busy" });
    let ran = jitter(QUERIES, &url, "--repeat 100000 --turn 300ms --json", 3);
    let found = ran.json();
    assert_eq!(found["partial"], true);
    let executions = found["executions"].as_u64().expect("a number");
    assert!(executions > 100, "{found}");
    let why = format!("no query to {url} succeeded any more after {executions} executions: ");
    let because = found["ended_because"]["text"].as_str();
    assert!(because.is_some_and(|because| because.starts_with(&why)), "{found}");
    assert_eq!(ran.file("out/jitter/p.txt").lines().count(), 1 + 3);
    ran.ran.warns(["status 503; these are partial results"]);
}

#[test]
fn a_server_that_is_away_for_a_moment_is_retried() {
    let url = by_turn(|turn| if matches!(turn, 0 | 1 | 3 | 4) { "503 Busy" } else { "200 OK" });
    let args = "--at-least 500ms --tolerance 99% --turn 300ms --json";
    let found = jitter(QUERIES, &url, args, 0).json();
    assert_eq!((found.get("partial"), &found["queries"]), (None, &3.into()));
    assert!(found["errors"]["status_5xx"].as_u64().is_some_and(|count| count > 0), "{found}");
}
