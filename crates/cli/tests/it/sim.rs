//! Tests `curtail sim`: the structure of its document, its files and flags, its errors, and its
//! manual.

use std::path::Path;

use crate::harness::words::{curtail, curtail_in, folder, json_in, read, refused, run};
use serde_json::Value;

/// Arguments for a simulation that takes a few milliseconds.
const SMALL: &str = "sim --shards 5 --requests 2000 --replications 2 --jitter bimodal:0.01:15";

fn here() -> &'static Path {
    Path::new(".")
}

/// Runs a line and returns its document, without the elapsed time.
fn timeless(line: &str) -> Value {
    let mut document = json_in(here(), line);
    for entry in document.as_array_mut().expect("a list") {
        let took = entry.as_object_mut().expect("an object").remove("elapsed_s");
        assert!(took.is_some_and(|took| took.as_f64() >= Some(0.0)));
    }
    document
}

/// Returns the table that `sim` prints.
fn table(line: &str) -> String {
    curtail(line).ends(0).out
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
            // Of 3,600 requests, 3.6 are above p99.9.
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
    for (flags, because, text) in [
        ("--utilization 1.5", "overload", "psq     unstable: more work arrives than the replicas"),
        ("--queue 1", "queue-full", "a shard's queue was full; see --queue"),
    ] {
        let line = format!("sim --shards 2 --requests 2000 --policy psq {flags}");
        let entry = &json_in(here(), &line)[0];
        assert_eq!(
            (&entry["stable"], &entry["unstable_because"]["kind"]),
            (&false.into(), &because.into())
        );
        for field in ["request", "ci95", "query", "copies_per_query"] {
            assert!(entry.get(field).is_some_and(Value::is_null), "{field}: {entry}");
        }
        assert!(table(&line).contains(text), "{}", table(&line));
    }
}

#[test]
fn the_table_names_what_its_figures_exclude() {
    let one = "sim --shards 1 --policy psq --requests";
    let two = "sim --shards 2 --requests 2000 --policy psq --policy o1 --service";
    let outage = format!("{SMALL} --policy psq --outage");
    for (line, words, is_there) in [
        (format!("{outage} exp:20/exp:1"), "requests FAILED (", true),
        (format!("{outage} exp:20/exp:1"), "of the others", true),
        (format!("{outage} exp:1e6/exp:1e-6"), "FAILED", false),
        (format!("{one} 20000 --utilization 0.98"), "At a utilization of 0.9800 a queue", true),
        (format!("{one} 20000 --utilization 0.8"), "keeps its state", false),
        (format!("{two} gamma:1:1000"), "psq: replicas were busy for", true),
        (format!("{two} exp:1"), "psq: replicas were busy for", false),
    ] {
        let printed = table(&line);
        assert_eq!(printed.contains(words), is_there, "{line}: {printed}");
    }
}

#[test]
fn windows_start_at_the_change() {
    let line = format!("{SMALL} --policy psq --policy laedge --change jitter=none --change-at 500");
    let document = timeless(&format!("{line} --window 600"));
    let windows = document[1]["windows"].as_array().expect("windows");
    let of = |name: &str| windows.iter().map(|window| window[name].clone()).collect::<Vec<_>>();
    assert_eq!(
        (of("from"), of("requests")),
        (vec![0.into(), 600.into(), 1200.into()], vec![1200.into(), 1200.into(), 600.into()])
    );
    assert!(windows[0]["p99"].is_f64() && windows[2]["p99"].is_null());
    assert!(timeless(&line)[0].get("windows").is_none(), "it was not requested");
    for (window, words) in [
        (600, "\nFrom request 500 on: jitter=none\n"),
        (600, "\np99 of requests from request 500 on, in windows of 600\n"),
        (600, "\n1200         –         –\n"),
        (600, "10 samples lie above the percentile; see --window"),
        (50, "… and 10 more windows: see --json"),
        // A hundred samples are too few for a p99.
        (50, "\np50 of"),
    ] {
        let printed = table(&format!("{line} --window {window}"));
        assert!(printed.contains(words), "{words}: {printed}");
    }
}

#[test]
fn flags_that_no_policy_uses_are_noted() {
    let (shared, hints) =
        ("--servers 4 --slots 4 --client-slots 1 --policy", "--shards 1 --hint-error 0.5 --policy");
    for (line, flag, noted) in [
        (format!("{hints} psq"), "hint-error", true),
        (format!("{hints} rescue:no-cancel"), "hint-error", false),
        (format!("{shared} least-outstanding"), "client-slots", true),
        (format!("{shared} psq"), "client-slots", false),
    ] {
        let ran = curtail(&format!("sim --requests 1000 {line}")).ends(0);
        let note = format!("note: {flag} has no effect");
        assert_eq!(ran.err.contains(&note), noted, "{line}: {}", ran.err);
        let shared = ran.out.starts_with("1 client, 4 servers of 4 slots");
        assert_eq!(shared, flag == "client-slots", "{}", ran.out);
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
fn bad_input_is_refused_with_value_and_fix() {
    let folder = folder(&[
        ("key.toml", "policies = [\"psq\"]\n[experiment]\nshards = 2\nsevers = 3\n"),
        ("type.toml", "[experiment]\nshards = \"many\"\n"),
        ("none.toml", "policies = []\n"),
        ("empty.toml", "# shards = 5\n\n"),
        ("long.toml", &format!("x = {}", "[".repeat(100_000))),
        ("later", "2ms\n1ms\n"),
        ("mixed", "1\n2ms\n"),
        ("escape", "1\u{1b}[31mred\n"),
    ]);
    let cases = [
        ("--utilization -1", "utilization is -1; use a number above 0"),
        ("--service-time file:escape", r"escape:1: `1\u{1b}[31mred` is not a sample"),
        ("--arrivals trace:escape", r"escape:1: `1\u{1b}[31mred` is not a time"),
        ("--service-time file:no\u{1b}[31m", r"cannot read no\u{1b}[31m"),
        ("--file escape", r"escape:1: 1\u{1b}[31mred: is not TOML"),
        ("--policy psq\u{1b}[31m", r"psq\u{1b}[31m"),
        ("--service-time exp:-1", "service: `-1` is out of range"),
        ("--service-time file:mixed", "mixed:2: `2ms` is not a sample: some lines have units"),
        ("--policy frob", "unknown policy \"frob\"; use one of random"),
        ("--policy lædge", "unknown policy \"lædge\"; did you mean laedge?"),
        ("--service-time exq:1", "`exq` is not a distribution; did you mean exp:MEAN?"),
        ("--arrivals poison", "did you mean poisson?"),
        ("--policy psq --policy psq", "--policy psq is given twice; remove one"),
        ("--percentiles 100", "--percentiles 100: use numbers above 0 and below 100"),
        ("--outage exp:9/exq:1", "`exq` is not a distribution"),
        ("--utilization-of most", "write mean or total"),
        ("--jitter-of replica", "'--jitter-of <WHOSE>': write copy or query"),
        ("--file /nowhere", "/nowhere"),
        ("--arrivals trace:later", "later:2: `1ms` is earlier than the arrival before; sort them"),
        ("--file key.toml", "key.toml:4: severs: unknown key; did you mean servers?"),
        ("--file type.toml", "type.toml:2: \"many\": shards has the wrong type; write a whole"),
        ("--file none.toml", "none.toml:1: []: policies is empty; name one, or remove the key"),
        ("--file empty.toml", "empty.toml is empty; give it an [experiment], or drop it"),
        ("--servers 4 --slots 4 --client-slots 8", "client-slots is 8; use 4 or fewer: slots is 4"),
        ("--servers 4 --repair 1e300", "repair is 1e300; use"),
        ("--percentiles 1e300", "--percentiles 1e300: use numbers above 0"),
        ("--file long.toml", "long.toml:1: [: is not TOML (cannot recurse further"),
        ("--requests 1000000000", "which takes about"),
        ("--requests 1000000000", "add --yes"),
        ("--outage exp:0.001/exp:0.001", "queries and failures, which takes about"),
        ("--change-at -5", "--change-at"),
        (
            "--requests 200 --change speeds=1,0.5 --change-at 200",
            "change-at is 200; use a number below the 200 requests of the run",
        ),
        ("--window 0", "0 is not in 1..="),
    ];
    refused(folder.path(), "sim", &cases);
}

#[test]
fn control_characters_in_a_flag_are_escaped() {
    for flag in ["--shards=\u{1b}[31m", "--no\u{1b}[31m", "--arrivals=\u{9b}31m"] {
        let mut command = std::process::Command::new(crate::harness::CURTAIL);
        // Forces colors, as on a terminal.
        let ran = run(command.args(["sim", flag]).env("CLICOLOR_FORCE", "1")).ends(2);
        assert!(!ran.err.contains(|c: char| c.is_control() && c != '\n'), "{:?}", ran.err);
        assert!(ran.err.starts_with("error: "), "{}", ran.err);
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
fn differences_are_those_of_the_figures_above_them() {
    let line = "sim --shards 2 --requests 5000 --policy psq --policy random --percentiles 50,95";
    let printed = table(line);
    // If p99 is not reported, the difference is in the highest percentile.
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

/// Linux only: /proc shows whether the process handles its signals.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_simulation_reports_it() {
    use crate::harness::{CURTAIL, serving::interrupted, until};
    use rustix::process::Signal;
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
    let ran = interrupted(child).ends(130);
    assert_eq!(ran.out, "");
    ran.warns(["interrupted before all replications were done"]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_manual_shows_what_is_printed() {
    crate::harness::words::manual_shows_what_is_printed(include_str!("../../../../docs/sim.md"), 3);
}

#[test]
fn the_queue_of_a_server_that_clients_share_is_drawn() {
    let out = folder(&[]);
    let out = out.path();
    let line = "sim --servers 3 --clients 2 --replicas 2 --requests 3000 --replications 1 \
                --service-time exp:4ms --utilization 0.5 --policy c3 --policy random --out drawn";
    curtail_in(out, line).ends(0).warns(["drawn/queue.html"]);
    let page = read(out.join("drawn/queue.html"));
    assert!(page.contains("with c3") && page.contains("with Random"), "{page}");
    assert_eq!(page.matches("<svg class=\"plot").count(), 2, "wide and narrow");
    let alone = ("--servers 3 --queue-series", "--json");
    refused(out, "sim", &[("--requests 2000 --out drawn", "give --servers, too"), alone]);
}
