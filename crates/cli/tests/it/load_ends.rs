//! Tests loads that are interrupted, or whose output loses its reader: no request that was due is
//! missing from the results.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::harness::answering::{Server, text};
use crate::harness::serving::{curtail, http, serve};
use crate::harness::{CURTAIL, until, wait};
use curtail_dist::LogReader;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn load(url: &str, args: &str, out: &Path) -> Child {
    let mut command = Command::new(CURTAIL);
    command
        .args(["load", url, "--arrivals", "constant"])
        .args(args.split(' '))
        .arg("--out")
        .arg(out);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary starts")
}

fn report(args: &str, folder: &Path) -> Output {
    let mut command = Command::new(CURTAIL);
    command.arg("report").args(args.split(' ')).current_dir(folder).stdin(Stdio::null());
    command.output().expect("the binary starts")
}

fn counted(log: &Path) -> u64 {
    let intervals = LogReader::open(log).expect("a log");
    intervals.map(|interval| interval.expect("an interval").counted.len()).sum()
}

#[test]
fn a_load_without_an_answer_is_written_when_it_is_interrupted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    let asked = Arc::<AtomicU32>::default();
    let count = Arc::clone(&asked);
    let address = serve(move |stream| {
        http(&stream, |_| {
            count.fetch_add(1, Ordering::Relaxed);
            true
        });
    });
    let url = format!("http://{address}/");
    let child = load(&url, "--rate 200 --duration 1h --connections 2", &out);
    until("both connections are in use", || asked.load(Ordering::Relaxed) == 2);
    // More requests are due, and no connection is free.
    std::thread::sleep(Duration::from_millis(100)); // tidy: real time
    kill_process(Pid::from_child(&child), Signal::INT).expect("a child of ours");
    let output = child.wait_with_output().expect("it ends");
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{stdout}{}", text(&output.stderr));
    assert!(
        stdout.contains("invalid: unfinished: when the run ended, 2 requests were in flight"),
        "{stdout}"
    );

    let result = fs::read_to_string(out.join("result.json")).expect("a result");
    let result: Value = serde_json::from_str(&result).expect("JSON");
    let of = |name: &str| result["report"]["errors"][name].as_u64().expect("a count");
    let (in_flight, overdue) = (of("in_flight"), of("overdue"));
    assert!(in_flight == 2 && overdue >= 10, "{result}");
    assert_eq!(result["report"]["requests"], in_flight + overdue);
    assert_eq!((&result["report"]["sent"], counted(&out.join("latency.hlog"))), (&2.into(), 0));
    assert_eq!(counted(&out.join("unanswered.hlog")), in_flight + overdue);
    let samples = fs::read_to_string(out.join("samples.csv")).expect("rows");
    let rows = |kind: &str| samples.matches(&format!(",{kind},false,0\n")).count() as u64;
    assert_eq!((rows("in_flight"), rows("overdue")), (2, overdue), "{samples}");
    let read = report("out", folder.path());
    let stdout = text(&read.stdout);
    assert!(
        read.status.success() && stdout.contains("invalid: unfinished") && stdout.contains('≥'),
        "{stdout}"
    );
}

#[test]
fn results_are_complete_if_stdout_is_closed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    let server = Server::start(200);
    let mut child = load(&server.url, "--rate 1000 --requests 60", &out);
    drop(child.stdout.take());
    assert_eq!(wait(&mut child), Some(3), "its output is lost");
    assert_eq!(counted(&out.join("latency.hlog")), 60);
    assert!(out.join("result.json").exists() && out.join("report.html").exists());

    let mut command = Command::new(CURTAIL);
    command.args(["report", "out", "--out", "page.html"]).current_dir(folder.path());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    assert_eq!(wait(&mut child), Some(3));
    let page = fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert!(page.ends_with("</html>\n"), "{page}");
}

#[test]
fn connections_that_ran_out_are_named_rather_than_the_server() {
    let address = serve(|stream| {
        http(&stream, |stream| {
            std::thread::sleep(Duration::from_millis(10)); // tidy: real time
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_ok()
        });
    });
    let line = format!("load http://{address}/ --arrivals constant -r 600 -n 300 -c 4");
    let output = curtail(&line, &[]);
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("invalid: fell short: "), "{stdout}");
    assert!(stdout.contains(" found all 4 connections busy: use more (-c "), "{stdout}");
    assert!(!stdout.contains("does not sustain"), "{stdout}");
}
