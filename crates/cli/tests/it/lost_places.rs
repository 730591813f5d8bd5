//! Results that cannot be kept: a disk that is full, a folder that is gone, a /proc that nobody can read.
//! The figures are printed all the same.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::harness::answering::{Server, text};
use crate::harness::{CURTAIL, until};
use rustix::process::{Pid, Signal, kill_process};

/// Runs a line of shell in a folder, with mounts of its own; none where this user may not.
fn with_mounts(folder: &Path, line: &str) -> Option<Output> {
    let unshare = |line: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-ec", line]).current_dir(folder);
        command.stdin(Stdio::null()).output()
    };
    if unshare("mkdir -p try && mount -t tmpfs none try").is_ok_and(|tried| tried.status.success())
    {
        return unshare(line).ok();
    }
    println!("SKIPPED: this user may not mount a file system");
    None
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("queries.txt"), "/a\n/b\n").expect("a file");
    folder
}

#[test]
fn a_disk_that_fills_up_costs_files_and_no_figures() {
    let (server, folder) = (Server::start(200), folder());
    let full = "mkdir small && mount -t tmpfs -o size=16k none small";
    let load = format!(
        "{full}; {CURTAIL} load {} --rate 400 --requests 700 --out small/r || echo code $?; ls small/r",
        server.url
    );
    let Some(output) = with_mounts(folder.path(), &load) else { return };
    let (said, table) = (text(&output.stderr), text(&output.stdout));
    assert!(table.contains("700 requests, 0 without a good answer"), "{table}{said}");
    assert!(table.contains("\ncode 3\n"), "{table}");
    assert!(said.contains("cannot write small/r/samples.csv: No space left on device"), "{said}");
    assert!(said.contains("the report on standard output is whole"), "{said}");
    assert!(
        !table.ends_with("report.html\n") && !table.contains("\nreport.html\n"),
        "no part of it is left: {table}"
    );

    let jitter = format!(
        "{full}; {CURTAIL} jitter {} --queries queries.txt --repeat 400 --floor 5% --out small/j \
         || echo code $?; ls small/j",
        server.url
    );
    let output = with_mounts(folder.path(), &jitter.replace("mkdir small", "mkdir -p small"));
    let output = output.expect("it could before");
    let (said, table) = (text(&output.stderr), text(&output.stdout));
    assert!(table.contains("2 queries, ") && table.contains("\ncode 3\n"), "{table}{said}");
    assert!(
        said.contains("cannot write small/j/executions.csv: No space left on device"),
        "{said}"
    );
    assert!(!table.contains("\nexecutions.csv\n"), "no part of it is left: {table}");
}

#[test]
fn a_folder_that_vanishes_is_told_file_by_file() {
    let (server, folder) = (Server::start(200), folder());
    let out = folder.path().join("out");
    let mut load = server.load(&["--rate", "200", "--requests", "200", "--out"]);
    let child = load.arg(&out).spawn().expect("the binary starts");
    until("answers", || server.answered.load(Ordering::Relaxed) >= 40);
    fs::remove_dir_all(&out).expect("it is there");
    let output = child.wait_with_output().expect("it ends");
    let (said, table) = (text(&output.stderr), text(&output.stdout));
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(table.contains("200 requests, 0 without a good answer"), "{table}");
    for name in ["latency.hlog", "samples.csv"] {
        assert!(said.contains(&format!("{name}: it was removed while the run went on")), "{said}");
    }
    assert!(said.contains("result.json: No such file or directory"), "{said}");
}

#[test]
fn without_proc_everything_is_measured_but_the_causes() {
    let (server, folder) = (Server::start(200), folder());
    let url = &server.url;
    let both = format!(
        "mount -t tmpfs none /proc; {CURTAIL} load {url} --rate 200 --requests 20; \
         {CURTAIL} jitter {url} --queries queries.txt --repeat 20 --floor 5%"
    );
    let Some(output) = with_mounts(folder.path(), &both) else { return };
    let (said, table) = (text(&output.stderr), text(&output.stdout));
    assert!(table.contains("20 requests, 0 without a good answer"), "{table}{said}");
    assert!(table.contains("2 queries, ") && !table.contains("likely causes"), "{table}{said}");
    assert!(!said.contains("error") && !said.contains("panicked"), "{said}");
}

#[test]
fn an_interrupted_jitter_tells_and_leaves_what_it_has() {
    let (server, folder) = (Server::start(200), folder());
    let mut command = Command::new(CURTAIL);
    command.args(["jitter", &server.url, "--queries", "queries.txt", "--repeat", "100000000"]);
    command.current_dir(folder.path()).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // Those of the first 200 ms are not measured.
    let (start, enough) = (Instant::now(), Duration::from_secs(1));
    until("answers", || start.elapsed() > enough && server.answered.load(Ordering::Relaxed) > 100);
    kill_process(Pid::from_child(&child), Signal::INT).expect("a child of ours");
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{said}{}", text(&output.stderr));
    assert!(said.ends_with("interrupted: partial results\n"), "{said}");
    let samples = fs::read_to_string(folder.path().join("out/jitter/service.txt")).expect("text");
    assert!(samples.lines().count() > 10, "{} lines", samples.lines().count());
}

#[test]
fn samples_of_before_stay_until_there_are_new_ones() {
    let folder = folder();
    fs::write(folder.path().join("service.txt"), "5ms\n").expect("a file");
    let mut command = Command::new(CURTAIL);
    command.args(["jitter", "http://127.0.0.1:1/", "--queries", "queries.txt", "--repeat", "20"]);
    command.args(["--turn", "300ms", "--out", "."]).current_dir(folder.path());
    let output = command.output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(folder.path().join("service.txt")).expect("text"), "5ms\n");
}
