//! Tests the files of `curtail load --out`, including write errors, and `curtail report` on these
//! files.
#![cfg(target_os = "linux")] // only Linux has a device that is always full

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::Ordering;

use crate::harness::CURTAIL;
use crate::harness::answering::{Server, text};
use curtail_dist::LogReader;
use serde_json::Value;

const FILES: [&str; 6] =
    ["ccdf.svg", "cdf.svg", "latency.hlog", "report.html", "result.json", "samples.csv"];

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

/// Sends `requests` requests with equal gaps, and writes results to a directory.
fn load(server: &Server, out: &Path, requests: u32, more: &[&str]) -> Output {
    let requests = requests.to_string();
    let out = out.display().to_string();
    let args = ["--rate", "1000", "--requests", &requests, "--out", &out];
    server.load(&[&args[..], more].concat()).output().expect("the binary starts")
}

fn report(args: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(CURTAIL);
    command.arg("report").args(args).current_dir(folder).stdin(Stdio::null());
    command.output().expect("the binary starts")
}

/// The number of latencies in a log.
fn latencies(log: &Path) -> u64 {
    let intervals = LogReader::open(log).expect("a log");
    intervals.map(|interval| interval.expect("an interval").counted.len()).sum()
}

#[test]
fn the_files_of_a_run_contain_the_same_requests() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("not/yet/there");
    let server = Server::start(200);
    let output = load(&server, &out, 500, &["--json", "--header", "x-key: s3cret"]);
    assert_eq!(names(&out), FILES, "{}", text(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    let result = json(&out.join("result.json"));
    assert_eq!(result["report"], printed);
    assert_eq!(result["plan"]["rate"], "1000");
    assert_eq!(result["plan"]["connections"], 64);
    assert_eq!(result["plan"]["processors"], Value::Null);
    assert_eq!(result["plan"]["target"], server.url);
    assert!(result["started_utc_s"].as_f64().is_some_and(|seconds| seconds > 1.7e9), "{result}");
    assert!(result["host"]["kernel"].as_str().is_some_and(|kernel| !kernel.is_empty()), "{result}");
    for file in FILES {
        let held = fs::read_to_string(out.join(file)).expect("text");
        assert!(!held.contains("s3cret"), "{file} contains a possible secret");
    }
    assert_eq!(latencies(&out.join("latency.hlog")), 500);
    let samples = fs::read_to_string(out.join("samples.csv")).expect("text");
    let mut rows = samples.lines();
    let names = "index,query,intended_ns,taken_ns,sent_ns,done_ns,kernel_sent_ns,kernel_received_ns,\
                 status,good,body_bytes";
    assert_eq!(rows.next(), Some(names));
    let mut indexes: Vec<u64> = rows
        .map(|row| {
            assert!(row.ends_with(",,,200,true,0"), "{row}");
            row.split(',').next().and_then(|index| index.parse().ok()).expect("a number")
        })
        .collect();
    indexes.sort_unstable();
    assert!(indexes.into_iter().eq(0..500));
}

#[test]
fn results_are_overwritten_only_by_force() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(200);
    fs::write(folder.path().join("notes.txt"), "mine").expect("a file");
    load(&server, folder.path(), 60, &[]);
    let before = fs::read(folder.path().join("result.json")).expect("a file");
    let answered = server.answered.load(Ordering::Relaxed);
    let refused = load(&server, folder.path(), 70, &[]);
    let stderr = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("it contains result.json of another run") && stderr.contains("--force"),
        "{stderr}"
    );
    assert_eq!(fs::read(folder.path().join("result.json")).expect("a file"), before);
    assert_eq!(server.answered.load(Ordering::Relaxed), answered, "nothing was sent");

    load(&server, folder.path(), 70, &["--force", "--samples", "none"]);
    let requests = &json(&folder.path().join("result.json"))["report"]["requests"];
    assert_eq!(requests, 70);
    let left = names(folder.path());
    assert!(left.contains(&"notes.txt".to_owned()), "{left:?}");
    assert!(!left.contains(&"samples.csv".to_owned()), "it is from another run: {left:?}");
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(200);
    let file = folder.path().join("file");
    fs::write(&file, "").expect("a file");
    let dangling = folder.path().join("dangling");
    symlink("nowhere", &dangling).expect("a link");
    let full = |name: &str| {
        let out = folder.path().join(format!("full-{name}"));
        fs::create_dir(&out).expect("a folder");
        symlink("/dev/full", out.join(name)).expect("a link");
        out
    };
    let cases = [
        (file.clone(), "cannot create this directory: it is not a directory"),
        (dangling, "cannot create this directory: it is a broken link"),
        (file.join("below"), "cannot create this directory: Not a directory"),
        ("/proc/results".into(), "cannot create this directory"),
        (full("latency.hlog"), "latency.hlog: No space left on device"),
        (full("samples.csv"), "samples.csv: No space left on device"),
    ];
    for (out, why) in cases {
        let output = load(&server, &out, 20, &["--force"]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert!(stderr.contains(why) && stderr.contains(&out.display().to_string()), "{stderr}");
        assert!(output.stdout.is_empty());
    }
    let parquet = load(&server, &folder.path().join("new"), 20, &["--samples", "parquet"]);
    if !cfg!(feature = "parquet") {
        assert_eq!(parquet.status.code(), Some(3));
        assert!(text(&parquet.stderr).contains("--features parquet"));
    }
    assert!(server.answered.load(Ordering::Relaxed) <= 20, "only Parquet may have been sent");
}

#[test]
fn a_disk_that_is_full_loses_no_measurement() {
    let server = Server::start(200);
    for name in ["result.json", "report.html", "cdf.svg"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        symlink("/dev/full", folder.path().join(name)).expect("a link");
        let output = load(&server, folder.path(), 60, &["--force"]);
        let (table, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(3), "{name}: {stderr}");
        let error = format!("{}: No space left on device", folder.path().join(name).display());
        assert!(stderr.contains(&format!("error: cannot write {error}")), "{stderr}");
        assert!(table.contains("60 requests, 0 without a good response"), "{table}");
        assert_eq!(names(folder.path()), FILES, "the other files are written");
        assert_eq!(latencies(&folder.path().join("latency.hlog")), 60);
    }
}

#[test]
fn a_log_that_cannot_grow_loses_no_measurement() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(200);
    // A limit of 512 bytes on the size of files, which is enough for the log's header.
    let limited = format!(
        "ulimit -f 1; exec {CURTAIL} load {} --rate 400 --requests 500 --out results",
        server.url
    );
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).current_dir(folder.path()).stdin(Stdio::null());
    let output = command.output().expect("a shell");
    let (table, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    for name in ["latency.hlog", "samples.csv", "result.json", "report.html"] {
        let error = format!("cannot write results/{name}: File too large");
        assert!(stderr.contains(&error), "{name}: {stderr}");
    }
    assert_eq!(stderr.matches("error:").count(), 1, "{stderr}");
    assert!(table.contains("500 requests, 0 without a good response"), "{table}");
}

#[test]
fn an_interrupted_run_writes_partial_results_and_one_in_its_warm_up_none() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(200);
    let out = folder.path().join("out");
    let path = out.display().to_string();
    let endless = ["--rate", "200", "--duration", "1h", "--out", &path];
    let warming = [&endless[..], &["--warmup", "1h"]].concat();
    assert_eq!(server.interrupted_after(5, &warming).status.code(), Some(130));
    assert!(!out.exists());
    assert_eq!(server.interrupted_after(40, &endless).status.code(), Some(130));
    let names = names(&out);
    // If a request was outstanding, there is one more file.
    assert!(names.iter().filter(|name| *name != "unanswered.hlog").eq(&FILES), "{names:?}");
    let result = json(&out.join("result.json"));
    assert_eq!(result["report"]["partial"], true);
    let requests = result["report"]["requests"].as_u64().expect("a number");
    let errors = result["report"]["errors"].as_object().expect("counts").values();
    let unfinished: u64 = errors.filter_map(Value::as_u64).sum();
    assert_eq!(latencies(&out.join("latency.hlog")), requests - unfinished);
    let compared = report(&["out"], folder.path());
    assert!(text(&compared.stdout).contains("invalid: interrupted"), "{}", text(&compared.stdout));
}

#[test]
fn runs_are_compared_and_added_up() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(200);
    for (name, requests) in [("one", 1_200), ("two", 1_100)] {
        load(&server, &folder.path().join(name), requests, &["--samples", "none"]);
    }
    fs::copy(folder.path().join("two/latency.hlog"), folder.path().join("bare.hlog"))
        .expect("a copy");

    let output = report(&["one", "two", "bare.hlog", "--json"], folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let compared: Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    let runs = compared["runs"].as_array().expect("a list");
    for (run, name) in runs.iter().zip(["one", "two"]) {
        let result = json(&folder.path().join(name).join("result.json"));
        assert_eq!(
            run["latency_ns"], result["report"]["latency_ns"],
            "equal to the log, to the digit"
        );
        assert_eq!(run["achieved_rate"], result["report"]["achieved_rate"]);
    }
    assert_eq!(runs[0].get("ratio_to_first"), None, "it is the first itself");
    let p99 = |place: usize| runs[place]["latency_ns"]["p99"].as_f64().expect("a percentile");
    assert_eq!(runs[1]["ratio_to_first"]["p99"].as_f64(), Some(p99(1) / p99(0)));
    assert_eq!((p99(2), &runs[2]["valid"]), (p99(1), &Value::Null));

    let output = report(&["one", "two", "--out", "page.html"], folder.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let again = report(&["one", "--out", "page.html"], folder.path());
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("--force"), "{}", text(&again.stderr));
    let table = text(&report(&["one", "two"], folder.path()).stdout);
    assert!(table.contains("achieved ") && table.contains("×: relative to one"), "{table}");
}

#[test]
fn runs_that_cannot_be_read_are_named_with_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let server = Server::start(200);
    load(&server, &at("good"), 100, &["--samples", "none"]);
    let log = fs::read_to_string(at("good/latency.hlog")).expect("text");
    let result = fs::read_to_string(at("good/result.json")).expect("text");
    let pair = |name: &str, result: &str, log: &str| {
        fs::create_dir(at(name)).expect("a folder");
        fs::write(at(name).join("result.json"), result).expect("a file");
        fs::write(at(name).join("latency.hlog"), log).expect("a file");
    };
    pair("empty", "", &log);
    pair("later", &result.replace("\"format\": 1", "\"format\": 2"), &log);
    pair("other", &result.replace("\"requests\": 100", "\"requests\": 99"), &log);
    pair("cut", &result, &log[..log.len() - 9]);
    fs::create_dir(at("nothing")).expect("a folder");
    fs::create_dir(at("no-log")).expect("a folder");
    fs::write(at("no-log/result.json"), &result).expect("a file");
    fs::write(at("text.hlog"), "hello\n").expect("a file");
    fs::write(at("blank.hlog"), "#[Histogram log format version 1.3]\n").expect("a file");
    for (args, why) in [
        (&["nowhere"][..], "cannot read nowhere: No such file"),
        (&["nothing"], "nothing: it has no result.json; give a directory"),
        (&["good/result.json"], "good/result.json: it has no latencies without its latency.hlog"),
        (&["no-log"], "cannot read no-log/latency.hlog"),
        (&["good", "empty"], "empty/result.json: it is not what curtail load --out writes: EOF"),
        (&["later"], "later/result.json: its format 2 is from a later version"),
        (&["other"], "other: latency.hlog has 100 latencies, and result.json 99 good responses"),
        (&["cut"], "cut/latency.hlog:"),
        (&["text.hlog"], "text.hlog:1: `hello` is not a sample: write start,length,max,histogram"),
        (&["blank.hlog"], "blank.hlog is a log that contains no histogram with a sample"),
    ] {
        let output = report(args, folder.path());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(why), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
    for over in ["good/result.json", "./good/latency.hlog"] {
        let before = fs::read(folder.path().join(over)).expect("a file");
        let refused = report(&["good", "--out", over, "--force"], folder.path());
        let stderr = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{over}: {stderr}");
        assert!(stderr.contains(&format!("--out {over}: a run is read from it")), "{stderr}");
        assert!(fs::read(folder.path().join(over)).expect("a file") == before, "{over}");
    }
    let full = report(&["good", "--out", "/dev/full", "--force"], folder.path());
    assert_eq!(full.status.code(), Some(3));
    let stderr = text(&full.stderr);
    assert!(stderr.contains("cannot write /dev/full: No space left on device"), "{stderr}");
}

#[cfg(feature = "parquet")]
#[test]
fn samples_can_be_parquet() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    load(&Server::start(200), folder.path(), 60, &["--samples", "parquet"]);
    let bytes = fs::read(folder.path().join("samples.parquet")).expect("a file");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{} bytes", bytes.len());
    assert!(!names(folder.path()).contains(&"samples.csv".to_owned()));
}

#[test]
fn a_run_without_a_good_response_has_rows_and_a_page_and_is_compared_with_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = load(&Server::start(200), &folder.path().join("good"), 50, &[]);
    // The only other reason to fail is a busy machine.
    let (code, stdout) = (output.status.code(), text(&output.stdout));
    let behind = code == Some(1) && stdout.contains("invalid: fell behind");
    assert!(code == Some(0) || behind, "{stdout}{}", text(&output.stderr));
    let output = load(&Server::start(503), &folder.path().join("bad"), 50, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let bad = folder.path().join("bad");
    // Without latencies there are no distributions.
    let files = ["latency.hlog", "report.html", "result.json", "samples.csv", "unanswered.hlog"];
    assert_eq!(names(&bad), files);
    assert_eq!(latencies(&bad.join("unanswered.hlog")), 50);
    let samples = fs::read_to_string(bad.join("samples.csv")).expect("text");
    assert_eq!(samples.matches(",503,false,0\n").count(), 50, "{samples}");
    let page = fs::read_to_string(bad.join("report.html")).expect("text");
    assert!(page.contains("with a bad status (5xx)</th><td>50</td>"), "{page}");
    assert!(page.contains("first failure after") && page.contains("<h1>Not valid: "), "{page}");

    let output = report(&["good", "bad", "--out", "page.html"], folder.path());
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{stdout}{}", text(&output.stderr));
    assert!(stdout.contains("fell short: 0 of 50 requests"), "{stdout}");
    let line = stdout.lines().find(|line| line.starts_with("bad  ")).expect("its latencies");
    assert!(line.contains("≥10000 ms"), "each counts as at least the timeout: {line}");
    let nowhere = report(&["good", "bad", "--out", "nowhere/page.html"], folder.path());
    assert_eq!((nowhere.status.code(), text(&nowhere.stdout)), (Some(3), stdout));
    let page = fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert!(page.contains("bad") && page.ends_with("</html>\n"), "{page}");
    fs::remove_file(bad.join("unanswered.hlog")).expect("a file");
    assert!(report(&["bad"], folder.path()).status.success(), "earlier versions wrote none");
    load(&Server::start(200), &folder.path().join("other"), 40, &[]);
    fs::copy(folder.path().join("other/latency.hlog"), bad.join("unanswered.hlog"))
        .expect("a copy");
    let refused = text(&report(&["bad"], folder.path()).stderr);
    assert!(refused.contains("unanswered.hlog has 40 requests, and result.json 50"), "{refused}");
}
