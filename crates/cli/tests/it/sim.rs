//! `curtail sim` as people and scripts meet it: the shape of its document, files and flags, what it
//! says of bad input, and its manual.

use std::path::Path;

use crate::harness::words::{curtail_in, folder, json_in, refused};
use serde_json::Value;

/// Some milliseconds of work.
const SMALL: &str = "sim --shards 5 --requests 2000 --replications 2 --jitter bimodal:0.01:15";

fn here() -> &'static Path {
    Path::new(".")
}

/// The document of a line, without how long it took.
fn timeless(line: &str) -> Value {
    let mut document = json_in(here(), line);
    for entry in document.as_array_mut().expect("a list") {
        let took = entry.as_object_mut().expect("an object").remove("elapsed_s");
        assert!(took.is_some_and(|took| took.as_f64() >= Some(0.0)));
    }
    document
}

#[test]
fn the_document_lists_the_policies_in_order() {
    let list = json_in(here(), &format!("{SMALL} --policy laedge --policy psq --policy o1"));
    let entries = list.as_array().expect("a list");
    let names: Vec<&Value> = entries.iter().map(|entry| &entry["policy"]).collect();
    assert_eq!(names, ["laedge", "psq", "o1"]);
    for (at, entry) in entries.iter().enumerate() {
        assert_eq!((&entry["stable"], &entry["unit"]), (&true.into(), &"1".into()));
        assert_eq!(entry["utilization"]["offered"], 0.3);
        assert!(entry["utilization"]["with_jitter"].as_f64() >= Some(0.3));
        for path in ["/utilization/busy", "/copies_per_query", "/hedged_fraction", "/elapsed_s"] {
            assert!(entry.pointer(path).is_some_and(Value::is_f64), "{path}: {entry}");
        }
        for group in ["request", "ci95"] {
            for name in ["mean", "p50", "p95", "p99"] {
                assert!(entry[group][name].is_f64(), "{group}.{name}: {entry}");
            }
            // Of 3,600 requests 3.6 lie above it.
            assert!(entry[group].as_object().expect("an object").contains_key("p999"));
            assert!(entry[group]["p999"].is_null(), "{entry}");
        }
        assert!(entry["query"]["p99"].is_f64() && entry["query"]["mean"].is_f64());
        assert_eq!(entry["queries_simulated"], 2 * 2_000 * 5);
        let versus = entry.get("versus_first");
        assert_eq!(versus.is_some(), at > 0, "{entry}");
        if let Some(versus) = versus {
            assert_eq!(versus["policy"], "laedge");
            assert!(versus["difference"]["p99"].is_f64() && versus["ci95"]["p99"].is_f64());
        }
    }
    assert_eq!(entries[1]["copies_per_query"], 1.0);
    assert!(entries[0]["copies_per_query"].as_f64() > Some(1.2));
}

#[test]
fn an_unstable_policy_has_no_latencies_and_is_no_failure() {
    let overload = SMALL.replace("bimodal:0.01:15", "det:0") + " --utilization 1.5 --policy psq";
    let entry = &json_in(here(), &overload)[0];
    assert_eq!(entry["stable"], false);
    for field in ["request", "ci95", "query", "copies_per_query"] {
        assert!(entry.get(field).is_some_and(Value::is_null), "{field}: {entry}");
    }
    let table = curtail_in(here(), &overload);
    assert!(table.status.success());
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(
        table.contains("psq       unstable: more work comes than the replicas can do"),
        "{table}"
    );
}

#[test]
fn requests_that_failed_are_told() {
    let told = |outage: &str| {
        let line = format!("{SMALL} --policy psq --outage {outage}");
        String::from_utf8(curtail_in(here(), &line).stdout).expect("text")
    };
    let some = told("exp:20/exp:1");
    assert!(some.contains("requests FAILED (") && some.contains("of the others"), "{some}");
    // Queries wait while no server is up.
    let all = told("exp:1/exp:1000000");
    assert!(all.contains("unstable: a shard's queue was full"), "{all}");
    assert!(!told("exp:1e6/exp:1e-6").contains("FAILED"));
}

#[test]
fn the_same_seed_gives_the_same_figures_on_any_number_of_threads() {
    let line = format!("{SMALL} --policy psq --policy laedge:cc --seed 7");
    let one = timeless(&format!("{line} --threads 1"));
    assert_eq!(one, timeless(&format!("{line} --threads 2")));
    assert_ne!(one, timeless(&format!("{SMALL} --policy psq --policy laedge:cc --seed 8")));
}

#[test]
fn windows_are_told_from_the_change_on() {
    let line = format!("{SMALL} --policy psq --policy laedge --change jitter=none --change-at 500");
    let document = timeless(&format!("{line} --window 600"));
    let windows = document[1]["windows"].as_array().expect("windows");
    let of = |name: &str| windows.iter().map(|window| window[name].clone()).collect::<Vec<_>>();
    assert_eq!(
        (of("from"), of("requests")),
        (vec![0.into(), 600.into(), 1200.into()], vec![1200.into(), 1200.into(), 600.into()])
    );
    assert!(windows[0]["p99"].is_f64() && windows[2]["p99"].is_null());
    assert!(timeless(&line)[0].get("windows").is_none(), "nobody asked for them");
    let told = |flags: &str| {
        String::from_utf8(curtail_in(here(), &format!("{line} {flags}")).stdout).expect("text")
    };
    let table = told("--window 600");
    assert!(table.contains("\nFrom request 500 on: jitter=none\n"), "{table}");
    assert!(
        table.contains("\np99 of requests from request 500 on, in windows of 600\n"),
        "{table}"
    );
    assert!(table.contains("\n1200               –         –\n"), "{table}");
    assert!(table.contains("10 samples lie above it; see --window"), "{table}");
    assert!(told("--window 50").contains("… and 10 windows more: see --json"));
    assert!(told("--window 50").contains("\np50 of"), "a hundred samples tell no p99");
}

#[test]
fn hints_that_no_policy_looks_at_are_noted() {
    for (policy, noted) in [("psq", true), ("rescue:no-cancel", false)] {
        let line = format!("sim --shards 1 --requests 1000 --hint-error 0.5 --policy {policy}");
        let output = curtail_in(here(), &line);
        assert_eq!(output.status.code(), Some(0));
        let aside = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(aside.contains("note: hint-error changes nothing"), noted, "{aside}");
    }
}

#[test]
fn flags_override_the_file() {
    let file = "policies = [\"psq\", \"laedge\"]\npercentiles = [50]\n[experiment]\nshards = 3\n\
        requests = 500\nreplications = 2\nutilization = 0.2\nservice = \"exp:5ms\"\n";
    let folder = folder(&[("experiment.toml", file)]);
    let as_written = json_in(folder.path(), "sim --file experiment.toml");
    assert_eq!(as_written.as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&as_written[0]["unit"], &as_written[0]["queries_simulated"]),
        (&"ms".into(), &3_000.into())
    );
    assert!(as_written[0]["request"].get("p99").is_none());
    let flags =
        "sim --file experiment.toml --shards 4 --utilization 0.4 --policy o1 --percentiles 90";
    let overridden = json_in(folder.path(), flags);
    assert_eq!(overridden.as_array().map(Vec::len), Some(1));
    let entry = &overridden[0];
    assert_eq!((&entry["policy"], &entry["queries_simulated"]), (&"o1".into(), &4_000.into()));
    assert_eq!(entry["utilization"]["offered"], 0.4);
    assert!(entry["request"]["p90"].is_f64() && entry["request"].get("p50").is_none());
}

#[test]
fn bad_input_is_refused_with_value_and_mend() {
    let folder = folder(&[
        ("empty", ""),
        ("word", "1\n2\nfast\n"),
        ("mixed", "1\n2ms\n"),
        ("key.toml", "policies = [\"psq\"]\n[experiment]\nshards = 2\nsevers = 3\n"),
        ("type.toml", "[experiment]\nshards = \"many\"\n"),
        ("none.toml", "policies = []\n"),
        ("long.toml", &format!("x = {}", "[".repeat(100_000))),
        ("later", "2ms\n1ms\n"),
        ("escape", "1\u{1b}[31mred\n"),
        (
            "headers",
            "#[Histogram log format version 1.3]\n\"StartTimestamp\",\"Interval_Length\"\n",
        ),
        ("shards.toml", "[experiment]\nshards = 0\n"),
    ]);
    let cases = [
        ("--utilization -1", "utilization is -1; give it a number above 0"),
        ("--utilization nan", "utilization is NaN; give it a number above 0"),
        ("--utilization 0", "utilization is 0; give it a number above 0"),
        ("--shards 0", "'0' for '--shards <N>': 0 is not in 1..=100000"),
        ("--shards -1", "'-1' for '--shards <N>': -1 is not in 1..=100000"),
        ("--requests 99", "99 is not in 100..=1000000000000"),
        ("--hint-error -1", "hint-error is -1; give it 0 to 5; 0 is an exact hint"),
        ("--cancel-cost exp:1", "cancel-cost is exp:1; give it one time, as 2 or 500us"),
        ("--file shards.toml", "shards is 0; give it 1 to 100000"),
        ("--service-time file:escape", r"escape:1: `1\u{1b}[31mred` is not a sample"),
        ("--arrivals trace:escape", r"escape:1: `1\u{1b}[31mred` is no time"),
        ("--service-time file:no\u{1b}[31m", r"cannot read no\u{1b}[31m"),
        ("--file escape", r"in `1\u{1b}[31mred`"),
        ("--policy psq\u{1b}[31m", r"psq\u{1b}[31m"),
        ("--service-time file:headers", "headers is a log that holds no histogram with a sample"),
        ("--warmup 1", "warm-up is 1; give it 0 to 0.9"),
        ("--speeds 1", "one speed for each of the 2 replicas"),
        ("--service-time exp:-1", "service: `-1` is out of range"),
        ("--service-time pareto:1:5", "bound it, as pareto:ALPHA:MIN:MAX"),
        ("--service-time file:/nowhere", "cannot read /nowhere"),
        ("--service-time file:empty", "empty holds no sample; write one time per line"),
        ("--service-time file:word", "word:3: `fast` is not a sample"),
        ("--service-time file:mixed", "mixed:2: `2ms` is not a sample: some lines have units"),
        ("--service-time exp:1ms --jitter bimodal:0.1:5", "give a unit to every time or to none"),
        ("--policy frob", "unknown policy \"frob\"; use one of random"),
        ("--policy lædge", "unknown policy \"lædge\"; did you mean laedge?"),
        ("--service-time exq:1", "`exq` is not a distribution; did you mean exp:MEAN?"),
        ("--arrivals poison", "did you mean poisson?"),
        ("--policy psq --policy psq", "--policy psq is there twice; drop one"),
        ("--percentiles 100", "--percentiles 100: give numbers above 0 and below 100"),
        ("--slowdown x", "slowdown is \"x\"; write EVERY/LASTS/SPEED"),
        ("--outage exp:1", "outage is \"exp:1\"; write EVERY/LASTS"),
        ("--outage exp:9/exq:1", "`exq` is not a distribution"),
        ("--slowdown exp:0/det:1/0", "(`0` is out of range: MEAN of exp:MEAN must be"),
        ("--utilization-of most", "write mean or total"),
        ("--jitter-of replica", "'--jitter-of <WHOSE>': write copy or query"),
        ("--file /nowhere", "/nowhere"),
        ("--utilization 1e-308", "utilization is 1e-308; give it 1.2e-8 at least"),
        ("--service-time weibull:0.01:1", "ns on average; give it shorter times"),
        ("--service-time exp:1e300", "`1e300` is 1e306 ns"),
        ("--service-time det:0", "service is det:0, whose mean is 0; give it times above zero"),
        ("--outage exp:1/det:0", "outage is det:0, whose mean is 0; give it times above zero"),
        ("--arrivals trace:later", "later:2: `1ms` is earlier than the arrival before; sort them"),
        ("--file key.toml", "key.toml:4: unknown field `severs`"),
        ("--file key.toml", "in `severs = 3`"),
        ("--file type.toml", "type.toml:2: invalid type"),
        ("--file none.toml", "none.toml: policies is empty; name one, or drop it"),
        ("--file long.toml", "[[[[…`"),
        ("--requests 1000000000", "which takes about"),
        ("--requests 1000000000", "add --yes"),
        ("--outage exp:0.001/exp:0.001", "queries and failures, which takes about"),
    ];
    refused(folder.path(), "sim", &cases);
}

#[test]
fn bad_changes_are_refused_with_value_and_mend() {
    let cases = [
        ("--change shards=3", "change \"shards=3\": write KEY=VALUE with a key of jitter, service"),
        ("--change speeds=1", "change \"speeds=1\": speeds is [1.0]; give it one speed for each"),
        ("--change jitter=x", "change \"jitter=x\": jitter: `x` is not a distribution"),
        ("--change-at 5", "change-at is 5; give it a change as well"),
        ("--change-at -5", "--change-at"),
        (
            "--requests 200 --change speeds=1,0.5 --change-at 200",
            "change-at is 200; give it less than the 200 requests that there are",
        ),
        ("--window 0", "0 is not in 1..="),
        ("--window 1", "window is 1, which makes 90000 windows; give it 90 or more"),
    ];
    refused(here(), "sim", &cases);
}

#[test]
fn nothing_that_a_terminal_would_obey_comes_back_from_a_flag() {
    for flag in ["--shards=\u{1b}[31m", "--no\u{1b}[31m", "--arrivals=\u{9b}31m"] {
        let mut command = std::process::Command::new(crate::harness::CURTAIL);
        // As at a terminal.
        let output = command.args(["sim", flag]).env("CLICOLOR_FORCE", "1").output();
        let output = output.expect("the binary starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
        assert!(said.starts_with("error: "), "{said}");
    }
}

#[test]
fn none_is_no_jitter_and_no_network() {
    let figures = |flags: &str| {
        let line = format!("sim --shards 1 --requests 1000 --policy psq {flags}");
        json_in(here(), &line)[0]["request"].clone()
    };
    let plain = figures("");
    assert_eq!(figures("--jitter none --network none"), plain);
    assert_ne!(figures("--jitter exp:1"), plain);
}

#[test]
fn a_request_that_takes_long_makes_nothing_unstable() {
    let line = "sim --shards 1 --replicas 100 --slots 100 --utilization 0.5 --policy psq \
                --jitter bimodal:0.0001:500 --replications 2 --requests 20000";
    assert_eq!(json_in(here(), line)[0]["stable"], true);
}

#[test]
fn why_a_run_is_unstable_is_told() {
    for (flags, because, text) in [
        ("--utilization 2", "overload", "more work comes than the replicas can do"),
        ("--queue 1", "queue-full", "a shard's queue was full; see --queue"),
    ] {
        let line = format!("sim --shards 2 --requests 2000 --policy psq {flags}");
        assert_eq!(json_in(here(), &line)[0]["unstable_because"]["kind"], because);
        let said = String::from_utf8(curtail_in(here(), &line).stdout).expect("text");
        assert!(said.contains(text), "{said}");
    }
}

#[test]
fn a_load_that_did_not_come_is_told() {
    let line = "sim --shards 2 --requests 2000 --policy psq --policy o1 --service";
    let told = |service: &str| {
        let output = curtail_in(here(), &format!("{line} {service}"));
        String::from_utf8(output.stdout).expect("text").contains("psq: replicas were busy for")
    };
    assert!(told("gamma:1:1000") && !told("exp:1"));
}

/// What `sim` prints for people.
fn table(line: &str) -> String {
    let printed = curtail_in(here(), line);
    assert_eq!(printed.status.code(), Some(0), "{line}");
    String::from_utf8_lossy(&printed.stdout).into_owned()
}

#[test]
fn runs_that_are_short_for_their_load_are_told() {
    let at = |utilization: f64| {
        table(&format!("sim --shards 1 --policy psq --utilization {utilization} --requests 20000"))
    };
    assert!(at(0.98).contains("At a utilization of 0.9800 a queue remembers for as long as "));
    assert!(!at(0.8).contains("remembers"));
}

#[test]
fn differences_are_those_of_the_figures_above_them() {
    let line = "sim --shards 2 --requests 5000 --policy psq --policy random --percentiles 50,95";
    let printed = table(line);
    // Without p99 it is the highest percentile.
    let difference = printed.lines().find_map(|line| line.strip_prefix("random − psq: p95 +"));
    let difference: f64 = first_number(difference.expect("a difference"));
    let p95 = |policy: &str| {
        let row = printed.lines().find(|line| line.starts_with(policy)).expect("a row");
        first_number(row.split_whitespace().nth(5).expect("p95"))
    };
    assert!((difference - (p95("random ") - p95("psq "))).abs() < 0.011, "{printed}");
}

fn first_number(text: &str) -> f64 {
    text.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn more_work_than_replicas_can_do_is_unstable_however_short_the_run() {
    let line = "sim --shards 2 --requests 200 --utilization 1 --policy psq";
    assert_eq!(json_in(here(), line)[0]["stable"], false);
}

/// Whether its signals are handled is known of a process on Linux.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_simulation_says_so() {
    use crate::harness::{CURTAIL, until};
    use rustix::process::{Pid, Signal, kill_process};
    use std::process::{Command, Stdio};

    let mut command = Command::new(CURTAIL);
    command.args(["sim", "--requests", "1000000000", "--shards", "1", "--policy", "psq", "--yes"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the binary starts");
    let status = format!("/proc/{}/status", child.id());
    until("it handles SIGINT", || {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask & (1 << (Signal::INT.as_raw() - 1)) != 0)
    });
    kill_process(Pid::from_child(&child), Signal::INT).expect("a child of ours");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted before all replications were done"), "{said}");
    assert!(output.stdout.is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn the_manual_shows_what_is_printed() {
    crate::harness::words::manual_shows_what_is_printed(include_str!("../../../../docs/sim.md"), 4);
}
