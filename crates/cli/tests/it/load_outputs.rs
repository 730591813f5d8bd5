//! Tests the files of `curtail load --out`, including write errors, and `curtail report` on these
//! files.
#![cfg(target_os = "linux")] // only Linux has a device that is always full

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::harness::CURTAIL;
use crate::harness::serving::Server;
use crate::harness::words::{Ran, curtail_in, folder, latencies, names, read, read_json, run};
use serde_json::Value;

const FILES: [&str; 6] =
    ["ccdf.svg", "cdf.svg", "latency.hlog", "report.html", "result.json", "samples.csv"];

/// Sends `requests` requests with equal gaps, and writes results to a directory.
fn load(server: &Server, out: &Path, requests: u32, more: &str) -> Ran {
    server.load(&format!("--rate 1000 --requests {requests} --out {} {more}", out.display()))
}

fn report(line: &str, folder: &Path) -> Ran {
    curtail_in(folder, &format!("report {line}"))
}

#[test]
fn the_files_of_a_run_contain_the_same_requests() {
    let folder = folder(&[]);
    let out = folder.path().join("not/yet/there");
    let server = Server::start(200);
    let ran = load(&server, &out, 500, "--json --header x-key:s3cret");
    assert_eq!(names(&out), FILES, "{}", ran.err);
    let result = read_json(out.join("result.json"));
    assert_eq!(result["report"], ran.json());
    assert_eq!(result["plan"]["rate"], "1000");
    assert_eq!(result["plan"]["connections"], 64);
    assert_eq!(result["plan"]["processors"], Value::Null);
    assert_eq!(result["plan"]["target"], server.url);
    assert!(result["started_utc_s"].as_f64().is_some_and(|seconds| seconds > 1.7e9), "{result}");
    assert!(result["host"]["kernel"].as_str().is_some_and(|kernel| !kernel.is_empty()), "{result}");
    for file in FILES {
        assert!(!read(out.join(file)).contains("s3cret"), "{file} contains a possible secret");
    }
    assert_eq!(latencies(out.join("latency.hlog")), 500);
    let samples = read(out.join("samples.csv"));
    let mut rows = samples.lines();
    let columns = "index,query,intended_ns,taken_ns,sent_ns,done_ns,kernel_sent_ns,\
                   kernel_received_ns,status,good,body_bytes";
    assert_eq!(rows.next(), Some(columns));
    let index = |row: &str| {
        assert!(row.ends_with(",,,200,true,0"), "{row}");
        row.split(',').next().and_then(|index| index.parse::<u64>().ok()).expect("a number")
    };
    let mut indexes: Vec<u64> = rows.map(index).collect();
    indexes.sort_unstable();
    assert!(indexes.into_iter().eq(0..500));
}

#[test]
fn results_are_overwritten_only_by_force() {
    let folder = folder(&[("notes.txt", "mine")]);
    let (path, server) = (folder.path(), Server::start(200));
    load(&server, path, 60, "");
    let (before, answered) = (read(path.join("result.json")), server.answered());
    let why = "it contains result.json of another run; give another directory, or --force";
    load(&server, path, 70, "").ends(2).warns([why]);
    assert_eq!(read(path.join("result.json")), before);
    assert_eq!(server.answered(), answered, "nothing was sent");

    load(&server, path, 70, "--force --samples none");
    assert_eq!(read_json(path.join("result.json"))["report"]["requests"], 70);
    let left = names(path);
    assert!(left.contains(&"notes.txt".to_owned()), "{left:?}");
    assert!(!left.contains(&"samples.csv".to_owned()), "it is from another run: {left:?}");
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_anything_is_sent() {
    let (folder, server) = (folder(&[("file", "")]), Server::start(200));
    let at = |name: &str| folder.path().join(name);
    symlink("nowhere", at("dangling")).expect("a link");
    let full = |name: &str| {
        let out = at(&format!("full-{name}"));
        fs::create_dir(&out).expect("a folder");
        symlink("/dev/full", out.join(name)).expect("a link");
        out
    };
    for (out, why) in [
        (at("file"), "cannot create this directory: it is not a directory"),
        (at("dangling"), "cannot create this directory: it is a broken link"),
        (at("file/below"), "cannot create this directory: Not a directory"),
        ("/proc/results".into(), "cannot create this directory"),
        (full("latency.hlog"), "latency.hlog: No space left on device"),
        (full("samples.csv"), "samples.csv: No space left on device"),
    ] {
        load(&server, &out, 20, "--force").fails(3, why).warns([&out.display().to_string()]);
    }
    let parquet = load(&server, &at("new"), 20, "--samples parquet");
    if !cfg!(feature = "parquet") {
        parquet.ends(3).warns(["--features parquet"]);
    }
    assert!(server.answered() <= 20, "only Parquet may have been sent");
}

#[test]
fn a_disk_that_is_full_loses_no_measurement() {
    let server = Server::start(200);
    for name in ["result.json", "report.html", "cdf.svg"] {
        let folder = folder(&[]);
        symlink("/dev/full", folder.path().join(name)).expect("a link");
        let file = folder.path().join(name);
        let error = format!("error: cannot write {}: No space left on device", file.display());
        load(&server, folder.path(), 60, "--force")
            .ends(3)
            .warns([&error])
            .prints(["60 requests, 0 without a good response"]);
        assert_eq!(names(folder.path()), FILES, "the other files are written");
        assert_eq!(latencies(folder.path().join("latency.hlog")), 60);
    }
}

#[test]
fn a_log_that_cannot_grow_loses_no_measurement() {
    let (folder, server) = (folder(&[]), Server::start(200));
    // A limit of 512 bytes on the size of files, which is enough for the log's header.
    let limited = format!(
        "ulimit -f 1; exec {CURTAIL} load {} --rate 400 --requests 500 --out results",
        server.url
    );
    let mut ran = run(Command::new("sh").args(["-c", &limited]).current_dir(folder.path())).ends(3);
    for name in ["latency.hlog", "samples.csv", "result.json", "report.html"] {
        ran = ran.warns([&format!("cannot write results/{name}: File too large")]);
    }
    assert_eq!(ran.err.matches("error:").count(), 1, "{}", ran.err);
    ran.prints(["500 requests, 0 without a good response"]);
}

#[test]
fn an_interrupted_run_writes_partial_results_and_one_in_its_warm_up_none() {
    let (folder, server) = (folder(&[]), Server::start(200));
    let out = folder.path().join("out");
    let endless = format!("--rate 200 --duration 1h --out {}", out.display());
    server.interrupted_after(5, &format!("{endless} --warmup 1h")).ends(130);
    assert!(!out.exists());
    server.interrupted_after(40, &endless).ends(130);
    let names = names(&out);
    // If a request was outstanding, there is one more file.
    assert!(names.iter().filter(|name| *name != "unanswered.hlog").eq(&FILES), "{names:?}");
    let result = read_json(out.join("result.json"));
    assert_eq!(result["report"]["partial"], true);
    let requests = result["report"]["requests"].as_u64().expect("a number");
    let errors = result["report"]["errors"].as_object().expect("counts").values();
    let unfinished: u64 = errors.filter_map(Value::as_u64).sum();
    assert_eq!(latencies(out.join("latency.hlog")), requests - unfinished);
    report("out", folder.path()).prints(["invalid: interrupted"]);
}

#[test]
fn runs_are_compared_and_added_up() {
    let (folder, server) = (folder(&[]), Server::start(200));
    let path = folder.path();
    for (name, requests) in [("one", 1_200), ("two", 1_100)] {
        load(&server, &path.join(name), requests, "--samples none");
    }
    fs::copy(path.join("two/latency.hlog"), path.join("bare.hlog")).expect("a copy");

    let compared = report("one two bare.hlog --json", path).ends(0).json();
    let runs = compared["runs"].as_array().expect("a list");
    for (run, name) in runs.iter().zip(["one", "two"]) {
        let report = &read_json(path.join(name).join("result.json"))["report"];
        assert_eq!(run["latency_ns"], report["latency_ns"], "equal to the log, to the digit");
        assert_eq!(run["achieved_rate"], report["achieved_rate"]);
    }
    assert_eq!(runs[0].get("ratio_to_first"), None, "it is the first itself");
    let p99 = |place: usize| runs[place]["latency_ns"]["p99"].as_f64().expect("a percentile");
    assert_eq!(runs[1]["ratio_to_first"]["p99"].as_f64(), Some(p99(1) / p99(0)));
    assert_eq!((p99(2), &runs[2]["valid"]), (p99(1), &Value::Null));

    report("one two --out page.html", path).ends(0);
    report("one --out page.html", path).ends(2).warns(["--force"]);
    report("one two", path).prints(["achieved ", "×: relative to one"]);
}

#[test]
fn runs_that_cannot_be_read_are_named_with_what_is_wrong() {
    let folder = folder(&[
        ("text.hlog", "hello\n"),
        ("blank.hlog", "#[Histogram log format version 1.3]\n"),
    ]);
    let at = |name: &str| folder.path().join(name);
    load(&Server::start(200), &at("good"), 100, "--samples none");
    let (log, result) = (read(at("good/latency.hlog")), read(at("good/result.json")));
    let pair = |name: &str, result: &str, log: &str| {
        fs::create_dir(at(name)).expect("a folder");
        fs::write(at(name).join("result.json"), result).expect("a file");
        fs::write(at(name).join("latency.hlog"), log).expect("a file");
    };
    pair("empty", "", &log);
    pair("later", &result.replace("\"format\": 1", "\"format\": 2"), &log);
    pair("other", &result.replace("\"requests\": 100", "\"requests\": 99"), &log);
    pair("cut", &result, &log[..log.len() - 9]);
    pair("no-log", &result, "");
    fs::remove_file(at("no-log/latency.hlog")).expect("a file");
    fs::create_dir(at("nothing")).expect("a folder");
    for (line, why) in [
        ("nowhere", "cannot read nowhere: No such file"),
        ("nothing", "nothing: it has no result.json; give a directory"),
        ("good/result.json", "good/result.json: it has no latencies without its latency.hlog"),
        ("no-log", "cannot read no-log/latency.hlog"),
        ("good empty", "empty/result.json: it is not what curtail load --out writes: EOF"),
        ("later", "later/result.json: its format 2 is from a later version"),
        ("other", "other: latency.hlog has 100 latencies, and result.json 99 good responses"),
        ("cut", "cut/latency.hlog:"),
        ("text.hlog", "text.hlog:1: `hello` is not a sample: write start,length,max,histogram"),
        ("blank.hlog", "blank.hlog is a log that contains no histogram with a sample"),
    ] {
        report(line, folder.path()).fails(2, why);
    }
    for over in ["good/result.json", "./good/latency.hlog"] {
        let before = read(at(over));
        let why = format!("--out {over}: a run is read from it");
        report(&format!("good --out {over} --force"), folder.path()).ends(2).warns([&why]);
        assert!(read(at(over)) == before, "{over}");
    }
    report("good --out /dev/full --force", folder.path())
        .ends(3)
        .warns(["cannot write /dev/full: No space left on device"]);
}

#[cfg(feature = "parquet")]
#[test]
fn samples_can_be_parquet() {
    let folder = folder(&[]);
    load(&Server::start(200), folder.path(), 60, "--samples parquet");
    let bytes = fs::read(folder.path().join("samples.parquet")).expect("a file");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{} bytes", bytes.len());
    assert!(!names(folder.path()).contains(&"samples.csv".to_owned()));
}

#[test]
fn a_run_without_a_good_response_has_rows_and_a_page_and_is_compared_with_others() {
    let folder = folder(&[]);
    let good = load(&Server::start(200), &folder.path().join("good"), 50, "");
    // The only other reason to fail is a busy machine.
    let behind = good.code == Some(1) && good.out.contains("invalid: fell behind");
    assert!(good.code == Some(0) || behind, "{}{}", good.out, good.err);
    let bad = folder.path().join("bad");
    load(&Server::start(503), &bad, 50, "").ends(1);
    // Without latencies there are no distributions.
    let files = ["latency.hlog", "report.html", "result.json", "samples.csv", "unanswered.hlog"];
    assert_eq!(names(&bad), files);
    assert_eq!(latencies(bad.join("unanswered.hlog")), 50);
    let samples = read(bad.join("samples.csv"));
    assert_eq!(samples.matches(",503,false,0\n").count(), 50, "{samples}");
    let page = read(bad.join("report.html"));
    assert!(page.contains("with a bad status (5xx)</th><td>50</td>"), "{page}");
    assert!(page.contains("first failure after") && page.contains("<h1>Not valid: "), "{page}");

    let compared = report("good bad --out page.html", folder.path())
        .ends(0)
        .prints(["fell short: 0 of 50 requests"]);
    let line = compared.out.lines().find(|line| line.starts_with("bad  ")).expect("its latencies");
    assert!(line.contains("≥10000 ms"), "each counts as at least the timeout: {line}");
    let nowhere = report("good bad --out nowhere/page.html", folder.path()).ends(3);
    assert_eq!(nowhere.out, compared.out);
    let page = read(folder.path().join("page.html"));
    assert!(page.contains("bad") && page.ends_with("</html>\n"), "{page}");
    fs::remove_file(bad.join("unanswered.hlog")).expect("a file");
    report("bad", folder.path()).ends(0); // Earlier versions wrote none.
    let other = folder.path().join("other");
    load(&Server::start(200), &other, 40, "");
    fs::copy(other.join("latency.hlog"), bad.join("unanswered.hlog")).expect("a copy");
    report("bad", folder.path()).warns(["unanswered.hlog has 40 requests, and result.json 50"]);
}
