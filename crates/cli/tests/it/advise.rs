//! Tests `curtail advise`: both verdicts, samples with hiccups, and errors. The tests simulate a share
//! of what the command simulates by default: its answers here are the same.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::harness::Process;
use crate::harness::serving::{Server, respond, url};
use crate::harness::words::{curtail, curtail_in, folder, json_in, refused};
use serde_json::Value;

fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("{of} is not a number"))
}

#[test]
fn hedging_that_pays_is_reported_with_gain_and_load_limit() {
    let folder = folder(&[]);
    let replicas =
        (0..5).map(|shard| format!(" --replicas-at 127.0.0.1:9{shard}1,127.0.0.1:9{shard}2"));
    let replicas: String = replicas.collect();
    // With a smaller share, the answer is another policy, or a lower limit.
    let times = "--service-time exp:5ms --jitter bimodal:0.003:75ms --utilization 0.35";
    let line = format!("advise --simulate 0.5 {times}{replicas} --out out --json");
    let advice = curtail_in(folder.path(), &line).json();
    let policy = "rescue:no-cancel";
    assert_eq!((&advice["hedge"], &advice["policy"]), (&true.into(), &policy.into()));
    let gain = number(&advice["gain"]["p99"]);
    assert!((0.3..0.5).contains(&gain), "{gain}");
    assert!(number(&advice["bound"]["p99"]) > gain);
    let stop = number(&advice["stop_above_utilization"]);
    assert!((0.4..0.6).contains(&stop), "{stop}");
    assert!((0.9..=0.999).contains(&number(&advice["confidence"])));
    assert_eq!(advice["verdict"]["kind"], "pays", "{}", advice["verdict"]);
    let because = advice["because"].as_str().expect("a text");
    assert!(because.contains("hit 0.30 % of the queries"), "{because}");
    let second = because.contains("second copies of 0.2") && because.contains("lower p99 from");
    assert!(second, "{because}");
    let rival = &advice["rival"];
    assert!(rival["policy"].as_str().is_some_and(|name| name.starts_with("delayed:")), "{rival}");
    // If replicas do not stop copies, delayed copies either delay other queries, or start too late
    // to be as good as the copies of the recommended policy.
    assert_eq!(rival["as_good"], false, "{rival}");
    assert!(number(&rival["p99"]) > 1.1 * (1.0 - gain) * 77.4, "{rival}");
    assert!(number(&rival["copies_per_query"]) > 1.0 && rival["text"].is_string(), "{rival}");
    let config: serde_json::Value =
        curtail_config::parse("config", advice["config"].as_str().expect("a text")).expect("TOML");
    assert_eq!(config["service"][0]["policy"].as_str(), Some(policy));
    assert_eq!(config["service"][0]["cancel"].as_str(), Some("none"));
    assert!(advice.get("samples").is_none());
    let checked = json_in(folder.path(), "proxy --config out/proxy.toml --check");
    assert_eq!(checked["verdict"]["kind"], "fine", "{checked}");
}

#[test]
fn without_jitter_there_is_nothing_to_gain() {
    let ran = curtail("advise --simulate 0.15 --service-time det:1 --utilization 0.3").ends(0);
    assert!(ran.out.starts_with("No: hedging does not pay here; run psq."), "{}", ran.out);
    ran.prints(["All copies of a query take equally long (there is no jitter)"])
        .omits(["<: ", "[[service]]"]);
}

#[test]
fn bad_input_is_rejected_with_value_and_fix() {
    let folder = folder(&[
        ("good", &"5ms\n6ms\n".repeat(100)),
        ("escape", "\u{1b}[31m1\n"),
        ("zeros", &"0\n".repeat(200)),
    ]);
    let cases = [
        ("--service-time exp:1", "--utilization <U>"),
        ("--service-time exp:1 --utilization 1", "utilization is 1; use less"),
        (
            "--service-time exp:1 --utilization 0.3 --shards 100000 --threads 1",
            "fewer shards, or add --yes",
        ),
        ("--service-time exp:1 --utilization -1", "utilization is -1; use a number above 0"),
        (
            "--service-time exp:1 --jitter bimodal:0.1:15 --utilization 0.9",
            "busy 225 % of the time",
        ),
        (
            "--service-time exp:1 --utilization 1e-9",
            "e-8 at least: a run is at most 146 years long",
        ),
        ("--service-time exp:1 --utilization 0.3 --slots -1", "-1 is not in 1..=1024"),
        (
            "--service-time exp:1 --utilization 0.3 --slots 2 --slots-of http://127.0.0.1:9/",
            "cannot be used with",
        ),
        (
            "--service-time exp:1 --utilization 0.3 --slots-of redis://127.0.0.1:9",
            "a replica serves HTTP; write http://",
        ),
        (
            "--service-time exp:1 --utilization 0.3 --slots-of 127.0.0.1:9555",
            "a replica serves HTTP; write http://HOST:PORT/path or https://HOST:PORT/path\n",
        ),
        (
            "--service-time exp:1 --utilization 0.3 --slots-of http://127.0.0.1:9/ --insecure",
            "http:// does not support --insecure; use https://",
        ),
        ("--service-time exp:1 --utilization 0.3 --insecure", "--slots-of <URL>"),
        ("--utilization 0.3 --samples escape", r"escape:1: `\u{1b}[31m1` is not a sample"),
        ("--utilization 0.3", "<--service-time <DIST>|--samples <FILE|DIR>>"),
        ("--utilization 0.3 --service-time exp:1 --samples good", "cannot be used with"),
        ("--utilization 0.3 --samples good --jitter det:1", "cannot be used with"),
        ("--utilization 0.3 --samples good --arrivals on-off:0.5:10", "give a unit to every time"),
        ("--utilization 0.3 --samples zeros", "zeros: all samples are zero; use service times"),
        ("--utilization 0.3 --samples /nowhere", "/nowhere"),
        (
            "--service-time exp:5ms --rate 1e9",
            "--rate 1000000000: at that rate utilization is 2500000;",
        ),
        ("--service-time exp:5ms --rate 1e-9", "--rate 1e-9: at that rate utilization is "),
        ("--service-time exp:5ms --rate 1e300", "--rate 1e300: at that rate utilization is 2.5"),
        ("--service-time exp:5ms --rate 9 --threads 0", "'--threads <N>': 0 is not in 1..=1024"),
        ("--utilization 0.3 --service-time exp:1 --cancel maybe", "[possible values: none, reset]"),
    ];
    refused(folder.path(), "advise", &cases);
}

#[test]
fn slots_are_found_at_a_replica() {
    // Other tests delay the scheduling of threads, and slots are idle during these delays. The
    // service time is therefore long compared with these delays.
    let leaf = Process::start("leaf --slots 3 --service-time det:50ms");
    let url = format!("http://{}/search?q=tail", leaf.address);
    let line = format!(
        "advise --simulate 0.05 --service-time det:50ms --utilization 0.3 --slots-of {url}"
    );
    let replicas = "--replicas-at 127.0.0.1:9001,127.0.0.1:9002";
    let advice = json_in(Path::new("."), &format!("{line} {replicas}"));
    let slots = advice["slots"].as_i64().expect("a number");
    assert!((2..=4).contains(&slots), "{slots}");
    let config: serde_json::Value =
        curtail_config::parse("config", advice["config"].as_str().expect("a text")).expect("TOML");
    assert_eq!(config["service"][0]["slots"].as_i64(), Some(slots));
}

#[test]
fn slots_of_a_replica_that_fails_queries_are_not_found() {
    let find = |url: &str| {
        curtail(&format!("advise --service-time det:1 --utilization 0.3 --slots-of {url}"))
    };
    let failing = Server::start(500);
    for (url, why) in [("http://127.0.0.1:9/", "cannot connect"), (&failing.url, "status 500")] {
        let begin = format!("error: --slots-of {url}: no query succeeded: {why}");
        let ran = find(url).ends(3).warns(["(3 queries in ", "; each has a timeout of 10 s)"]);
        assert!(ran.err.starts_with(&begin) && ran.out.is_empty(), "{}", ran.err);
    }
    let served = Arc::<AtomicU32>::default();
    let url = url(move |stream| {
        let is_third = served.fetch_add(1, Ordering::Relaxed) % 3 == 2;
        std::thread::sleep(std::time::Duration::from_millis(2)); // tidy: real time
        respond(stream, if is_third { "503 " } else { "200 " })
    });
    find(&url).ends(3).warns(["queries failed: status 503; give a query"]);
}

#[test]
fn open_questions_of_a_jitter_directory_are_named() {
    // There was one pause in 120 executions, which affected two of them.
    let time = |at: u32| if at / 2 == 30 { "30ms\n" } else { "10us\n" };
    let j: String = (0..120).map(time).collect();
    let p: String = (1..=100).map(|at| format!("{}us\n", 20 * at)).collect();
    let seen = r#"{"probability": 0.016, "probability_ci95": [0.001, 0.05],
        "duration_ns": 3e7, "duration_ci95": [2e7, 4e7]}"#;
    let found = format!("{{\"queries\": 100, \"executions\": 120, \"seen\": {seen}}}");
    let folder = folder(&[("p.txt", &p), ("j.txt", &j), ("result.json", &found)]);
    let line = "advise --simulate 0.15 --samples . --utilization 0.3 --cancel reset";
    let stdout = curtail_in(folder.path(), line).out;
    assert!(stdout.starts_with("Undecided: in these samples rescue"), "{stdout}");
    let flat = stdout.replace('\n', " ");
    let hiccups = "curtail jitter found hiccups in 1.600 % (0.100 to 5.000 %) of 120 executions, of \
                   30.00 ms (20.00 to 40.00 ms).";
    assert!(flat.contains(hiccups), "{stdout}");
    assert!(!flat.contains("run psq") && !flat.contains("[[service]]"), "{stdout}");
    let advice = json_in(folder.path(), line);
    assert_eq!(advice["verdict"]["kind"], "cannot-be-told", "{}", advice["verdict"]);
    assert_eq!((&advice["settled"], &advice["hedge"]), (&false.into(), &false.into()));
}

#[test]
fn bad_samples_rates_and_addresses_are_rejected() {
    let folder = folder(&[
        ("p.txt", &"40us\n".repeat(200)),
        ("j.txt", &"10us\n".repeat(200)),
        ("proxy.toml", ""),
    ]);
    let replicas = "--replicas-at 127.0.0.1:9001,127.0.0.1:9002";
    let taken = format!("--service-time exp:5ms --rate 200 {replicas} --out .");
    let uneven = format!("--service-time exp:5ms --rate 200 {replicas} --replicas-at 127.0.0.1:3");
    let cases = [
        ("--samples . --rate 200 --replicas-at 127.0.0.1", "\"127.0.0.1\" must be IP:PORT"),
        ("--samples . --rate -1", "--rate -1: give requests per second above 0"),
        ("--service-time exp:1 --rate 5", "the times have no unit"),
        (
            "--samples .. --rate 5",
            "p.txt is missing; use a folder that curtail jitter --out has written",
        ),
        (&taken, "--out ./proxy.toml: it exists already"),
        (&uneven, "a shard has 2 replicas, and another has 1"),
    ];
    refused(folder.path(), "advise", &cases);
}
