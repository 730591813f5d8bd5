//! What `curtail jitter` finds, leaves behind, and says of bad input.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::harness::CURTAIL;
use crate::harness::answering::{Server, text};
use crate::harness::serving::{self, serve};
use serde_json::Value;

fn jitter(folder: &Path, target: &str, args: &[&str]) -> Output {
    let mut command = Command::new(CURTAIL);
    command.args(["jitter", target, "--queries", "queries.txt"]).args(args);
    command.current_dir(folder).output().expect("the binary starts")
}

/// A folder with three queries in two classes.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let queries =
        "/a\n{\"path\": \"/b\", \"class\": \"term\"}\n{\"path\": \"/c\", \"class\": \"term\"}\n";
    fs::write(folder.path().join("queries.txt"), queries).expect("a file");
    folder
}

#[test]
fn executions_are_taken_apart_and_left_for_others_to_read() {
    let (server, folder) = (Server::start(200), folder());
    let output = jitter(folder.path(), &server.url, &["--repeat", "40", "--floor", "5%", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!((&found["queries"], &found["unloaded"]), (&3.into(), &true.into()));
    assert!(found["repetitions"].as_u64().is_some_and(|times| times >= 40), "{found}");
    let mean = |part: &str| found[part]["mean"].as_f64().expect("a mean");
    let (service, p, j) = (mean("service_ns"), mean("P_ns"), mean("J_ns"));
    assert!(p > 0.0 && (service - p - j).abs() < 1.0, "{service} = {p} + {j}");
    let [low, high] = [0, 1].map(|at| found["hiccup"]["probability_ci95"][at].as_f64().unwrap());
    assert!(0.0 <= low && low <= high && high <= 1.0);
    assert!(found["floor"]["observed_ns"].as_u64().is_some_and(|ns| ns > 0), "{found}");
    let classes = found["classes"].as_array().expect("classes");
    let counts: Vec<_> = classes.iter().map(|class| class["queries"].as_u64().unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 3);

    let out = folder.path().join("out/jitter");
    let executions = found["executions"].as_u64().expect("a number") as usize;
    for (file, lines) in [
        ("service.txt", executions),
        ("p.txt", 3),
        ("j.txt", executions),
        ("executions.csv", executions),
    ] {
        let text = fs::read_to_string(out.join(file)).expect(file);
        assert_eq!(text.lines().count(), lines + 1, "{file} has a line for what it is");
    }
    let page = fs::read_to_string(out.join("report.html")).expect("a report");
    for part in ["Figure 1.", "Figure 2.", "Figure 3.", "Table 1.", "Table 2.", "J of an execution"]
    {
        assert!(page.contains(part), "no {part}");
    }
    assert!(page.contains("<h2 id=\"classes\">") && page.contains(">term<"), "classes are apart");
    assert!(!page.contains("NaN") && !page.contains("inf"), "all figures are numbers");
    for plot in ["ccdf.svg", "ranked.svg"] {
        let svg = fs::read_to_string(out.join(plot)).expect(plot);
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{plot}");
    }
    assert_eq!(found["samples"], "out/jitter/service.txt");
    // The simulator reads them as they are.
    let mut sim = Command::new(CURTAIL);
    sim.args(["sim", "--shards", "2", "--utilization", "0.3", "--requests", "2000", "--json"]);
    sim.args(["--service", "file:out/jitter/p.txt", "--jitter", "file:out/jitter/j.txt"]);
    let simulated = sim.current_dir(folder.path()).output().expect("the binary starts");
    assert_eq!(simulated.status.code(), Some(0), "{}", text(&simulated.stderr));
}

#[test]
fn people_get_a_table_and_a_verdict() {
    let (server, folder) = (Server::start(200), folder());
    let args = ["--repeat", "20", "--floor", "5%", "--rate", "500", "--out", "here"];
    let output = jitter(folder.path(), &server.url, &args);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(said.contains("3 queries, ") && said.contains(" executions at 500/s"), "{said}");
    for row in ["mean P + J", "hiccups seen", "the leaf's own", "the machine's", "term"] {
        assert!(said.contains(row), "no {row} in {said}");
    }
    let result = fs::read(folder.path().join("here/result.json")).expect("results");
    let found: Value = serde_json::from_slice(&result).expect("JSON");
    // The upper border of what was not found is explained.
    let explained = said.contains("none were found; up to the upper border");
    assert_eq!(found["seen"]["bimodal"], !explained, "{said}");
}

#[test]
fn a_load_beyond_what_the_leaf_can_serve_is_told() {
    let folder = folder();
    let turn = Arc::<Mutex<()>>::default();
    let target = serve(move |stream| {
        let turn = Arc::clone(&turn);
        // One query after the other, of 5 ms each.
        serving::http(&stream, |stream| {
            let _one = turn.lock().expect("no server panics");
            std::thread::sleep(Duration::from_millis(5)); // tidy: real time
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_ok()
        });
    });
    let url = format!("http://{target}/");
    let why = "was not reached: of ";
    let args = ["--repeat", "40", "--floor", "5%", "--rate", "500"];
    let output = jitter(folder.path(), &url, &args);
    let (said, warned) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}{warned}");
    assert!(said.contains(why) && said.contains("use a lower --rate"), "{said}");
    assert!(warned.contains(why), "{warned}");
    let result = fs::read(folder.path().join("out/jitter/result.json")).expect("results");
    let found: Value = serde_json::from_slice(&result).expect("JSON");
    assert_eq!((&found["rate_reached"], &found["unloaded"]), (&false.into(), &false.into()));
    assert!(
        found["rate_missed"]["text"].as_str().is_some_and(|text| text.contains(why)),
        "{found}"
    );
    let page = fs::read_to_string(folder.path().join("out/jitter/report.html"));
    assert!(page.expect("a report").contains(why));
    // What it can serve.
    let args = ["--repeat", "20", "--floor", "5%", "--rate", "60", "--json"];
    let output = jitter(folder.path(), &url, &args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!((&found["rate_reached"], &found["rate_missed"]), (&true.into(), &Value::Null));
}

#[test]
fn bad_input_is_told_before_anything_is_sent() {
    let (server, folder) = (Server::start(200), folder());
    fs::write(folder.path().join("file"), "").expect("a file");
    fs::create_dir(folder.path().join("load")).expect("a folder");
    fs::write(folder.path().join("load/latency.hlog"), "").expect("a file");
    fs::write(folder.path().join("bad.txt"), "/fine\nno slash\n").expect("a file");
    let url = server.url.as_str();
    for (target, args, mend) in [
        ("ftp://x/", &[][..], "ftp"),
        (url, &["--repeat", "0"], "--repeat"),
        (url, &["--repeat", "9", "--at-least", "1s"], "--at-least"),
        (url, &["--floor", "none"], "2%"),
        (url, &["--turn", "0s"], "'--turn <SPAN>': write a time above zero"),
        (url, &["--rate", "-1"], "above 0"),
        (url, &["--processors", "1023"], "--processors: processor 1023 is none"),
        (url, &["--out", "file"], "--out file"),
        (url, &["--out", "load"], "--out load: results of curtail load are there"),
        (url, &["--rate", "8", "--turn", "100ms"], "use a longer --turn"),
        (url, &["--keys", "5"], "write a line for each into --queries"),
        ("udp://127.0.0.1:9", &[], "no queries to execute again"),
    ] {
        let output = jitter(folder.path(), target, args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(mend), "{args:?}: {said}");
    }
    let mut command = Command::new(CURTAIL);
    command.args(["jitter", url, "--queries", "bad.txt"]).current_dir(folder.path());
    let said = text(&command.output().expect("the binary starts").stderr);
    assert!(said.contains("bad.txt:2: "), "{said}");
    assert_eq!(server.answered.load(Ordering::Relaxed), 0);
}

#[test]
fn a_leaf_that_does_not_answer_well_is_told() {
    let check = |target: &str, why: &str| {
        let folder = folder();
        // That does not take a turn.
        let output = jitter(folder.path(), target, &["--repeat", "20", "--turn", "1h"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("no query was answered well") && said.contains(why), "{said}");
    };
    let failing = Server::start(503).url;
    std::thread::scope(|scope| {
        scope.spawn(|| check(&failing, "status 503"));
        scope.spawn(|| check("http://127.0.0.1:1/", "cannot connect"));
    });
}

#[test]
fn a_query_that_always_fails_is_named_rather_than_executed_for_ever() {
    let folder = folder();
    fs::write(folder.path().join("queries.txt"), "/a\n/nope\n").expect("a file");
    let target = serve(|mut stream| {
        let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
        let mut status = "";
        while let Some(Ok(line)) = lines.next() {
            if line.starts_with("GET") {
                status = if line.contains("/nope") { "404 Not Found" } else { "200 OK" };
            }
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            if line.is_empty() && stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    // The turn ends as soon as that is clear.
    let args = ["--repeat", "20", "--turn", "1h", "--json"];
    let output = jitter(folder.path(), &format!("http://{target}/"), &args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let named = "query 2 of 2, `/nope`, was never answered well (status 404)";
    assert!(said.contains(named) && said.contains("take it out of the file"), "{said}");
    // What is known of the other is not lost.
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!((&found["partial"], &found["queries"]), (&true.into(), &1.into()));
    assert!(folder.path().join("out/jitter/report.html").is_file());
    // People are told what is not known.
    let output = jitter(folder.path(), &format!("http://{target}/"), &args[..4]);
    let said = text(&output.stdout);
    for words in
        [" one at a time, but not every query of the file", "no loop that does nothing has run"]
    {
        assert!(said.contains(words), "no {words} in {said}");
    }
    assert!(!said.contains(" 0 times") && !said.contains(" 0 processors"), "{said}");
}

#[test]
fn a_server_that_closes_after_each_answer_is_not_asked_for_a_whole_turn() {
    let folder = folder();
    let closing = serve(|stream| {
        serving::http(&stream, |stream| {
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes());
            false
        });
    });
    let args = ["--repeat", "20", "--turn", "1h", "--rate", "1000", "--connections", "2"];
    let output = jitter(folder.path(), &format!("http://{closing}/"), &args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("let the server keep its connections open"), "{said}");
}

#[test]
fn queries_are_executed_as_often_as_asked_for_where_a_turn_is_shorter_than_a_round() {
    let (server, folder) = (Server::start(200), folder());
    let queries: String = (0..300).map(|n| format!("/{n}\n")).collect();
    fs::write(folder.path().join("queries.txt"), queries).expect("a file");
    let args = ["--repeat", "5", "--turn", "10ms", "--floor", "5%", "--json"];
    let output = jitter(folder.path(), &server.url, &args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!((&found["repetitions"], &found["enough"]), (&5.into(), &"at-most".into()));
    // A round at most is beyond what was asked for.
    let executions = found["executions"].as_u64().expect("a number");
    assert!((1_500..=1_875).contains(&executions), "{executions}");
}

#[test]
fn what_was_measured_before_a_leaf_failed_is_reported() {
    let folder = folder();
    let turns = Arc::<AtomicU32>::default();
    let target = serve(move |stream| {
        // Each turn has a connection of its own.
        let status = if turns.fetch_add(1, Ordering::Relaxed) < 2 { 200 } else { 503 };
        serving::http(&stream, |stream| {
            let answer = format!("HTTP/1.1 {status} \r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).is_ok()
        });
    });
    let args = ["--repeat", "100000", "--turn", "300ms", "--json"];
    let p = folder.path().join("out/jitter/p.txt");
    let output = jitter(folder.path(), &format!("http://{target}/"), &args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("status 503; these are partial results"), "{said}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!(found["partial"], true);
    let executions = found["executions"].as_u64().expect("a number");
    assert!(executions > 100, "{found}");
    let why =
        format!("none was answered any more by http://{target}/ after {executions} executions: ");
    assert!(
        found["ended_because"]["text"].as_str().is_some_and(|because| because.starts_with(&why)),
        "{found}"
    );
    assert_eq!(fs::read_to_string(p).expect("a file").lines().count(), 1 + 3);
}

#[test]
fn a_server_that_is_away_for_a_moment_is_asked_again() {
    let folder = folder();
    let turns = Arc::<AtomicU32>::default();
    let target = serve(move |stream| {
        // Each turn has a connection of its own.
        let turn = turns.fetch_add(1, Ordering::Relaxed);
        let status = if matches!(turn, 0 | 1 | 3 | 4) { 503 } else { 200 };
        serving::http(&stream, |stream| {
            let answer = format!("HTTP/1.1 {status} \r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).is_ok()
        });
    });
    let args = ["--at-least", "500ms", "--tolerance", "99%", "--turn", "300ms", "--json"];
    let output = jitter(folder.path(), &format!("http://{target}/"), &args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!((found.get("partial"), &found["queries"]), (None, &3.into()));
    assert!(found["errors"]["status_5xx"].as_u64().is_some_and(|count| count > 0), "{found}");
}

#[test]
fn a_turn_in_which_by_chance_no_query_comes_is_none_without_an_answer() {
    let (server, folder) = (Server::start(200), folder());
    let args = ["--repeat", "2", "--rate", "8", "--turn", "130ms", "--floor", "5%", "--json"];
    let output = jitter(folder.path(), &server.url, &args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
