//! Tests results that cannot be written because of a full disk, a deleted directory, or an
//! unreadable /proc. The figures are printed anyway.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::harness::answering::{Server, text};
use crate::harness::{CURTAIL, until};
use rustix::process::{Pid, Signal, kill_process};

/// Runs a shell command in a directory with its own mounts; `None` if this user is not permitted to
/// mount.
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
fn a_full_disk_loses_files_but_no_figures() {
    let (server, folder) = (Server::start(200), folder());
    let full = "mkdir small && mount -t tmpfs -o size=16k none small";
    let load = format!(
        "{full}; {CURTAIL} load {} --rate 400 --requests 700 --out small/r || echo code $?; ls small/r",
        server.url
    );
    let Some(output) = with_mounts(folder.path(), &load) else { return };
    let (stderr, table) = (text(&output.stderr), text(&output.stdout));
    assert!(table.contains("700 requests, 0 without a good response"), "{table}{stderr}");
    assert!(table.contains("\ncode 3\n"), "{table}");
    assert!(
        stderr.contains("cannot write small/r/samples.csv: No space left on device"),
        "{stderr}"
    );
    assert!(stderr.contains("the report on standard output is complete"), "{stderr}");
    assert!(
        !table.ends_with("report.html\n") && !table.contains("\nreport.html\n"),
        "no part of the file is left: {table}"
    );

    let jitter = format!(
        "{full}; {CURTAIL} jitter {} --queries queries.txt --repeat 400 --floor 5% --out small/j \
         || echo code $?; ls small/j",
        server.url
    );
    let output = with_mounts(folder.path(), &jitter.replace("mkdir small", "mkdir -p small"));
    let output = output.expect("it worked before");
    let (stderr, table) = (text(&output.stderr), text(&output.stdout));
    assert!(table.contains("2 queries, ") && table.contains("\ncode 3\n"), "{table}{stderr}");
    assert!(
        stderr.contains("cannot write small/j/executions.csv: No space left on device"),
        "{stderr}"
    );
    assert!(!table.contains("\nexecutions.csv\n"), "no part of the file is left: {table}");
}

#[test]
fn a_removed_directory_is_reported_file_by_file() {
    let (server, folder) = (Server::start(200), folder());
    let out = folder.path().join("out");
    let mut load = server.load(&["--rate", "200", "--requests", "200", "--out"]);
    let child = load.arg(&out).spawn().expect("the binary starts");
    until("answers", || server.answered.load(Ordering::Relaxed) >= 40);
    fs::remove_dir_all(&out).expect("it is there");
    let output = child.wait_with_output().expect("it ends");
    let (stderr, table) = (text(&output.stderr), text(&output.stdout));
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(table.contains("200 requests, 0 without a good response"), "{table}");
    for name in ["latency.hlog", "samples.csv"] {
        assert!(stderr.contains(&format!("{name}: it was removed during the run")), "{stderr}");
    }
    assert!(stderr.contains("result.json: No such file or directory"), "{stderr}");
}

#[test]
fn without_proc_only_the_causes_are_missing() {
    let (server, folder) = (Server::start(200), folder());
    let url = &server.url;
    let both = format!(
        "mount -t tmpfs none /proc; {CURTAIL} load {url} --rate 200 --requests 20; \
         {CURTAIL} jitter {url} --queries queries.txt --repeat 20 --floor 5%"
    );
    let Some(output) = with_mounts(folder.path(), &both) else { return };
    let (stderr, table) = (text(&output.stderr), text(&output.stdout));
    assert!(table.contains("20 requests, 0 without a good response"), "{table}{stderr}");
    assert!(table.contains("2 queries, ") && !table.contains("likely causes"), "{table}{stderr}");
    assert!(!stderr.contains("error") && !stderr.contains("panicked"), "{stderr}");
}

#[test]
fn an_interrupted_jitter_reports_and_writes_partial_results() {
    let (server, folder) = (Server::start(200), folder());
    let mut command = Command::new(CURTAIL);
    command.args(["jitter", &server.url, "--queries", "queries.txt", "--repeat", "100000000"]);
    command.current_dir(folder.path()).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // Responses in the first 200 ms are not measured.
    let (start, enough) = (Instant::now(), Duration::from_secs(1));
    until("answers", || start.elapsed() > enough && server.answered.load(Ordering::Relaxed) > 100);
    kill_process(Pid::from_child(&child), Signal::INT).expect("a child of ours");
    let output = child.wait_with_output().expect("it ends");
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{stdout}{}", text(&output.stderr));
    assert!(stdout.ends_with("interrupted: partial results\n"), "{stdout}");
    let samples = fs::read_to_string(folder.path().join("out/jitter/service.txt")).expect("text");
    assert!(samples.lines().count() > 10, "{} lines", samples.lines().count());
}

#[test]
fn earlier_samples_stay_until_they_are_replaced() {
    let folder = folder();
    fs::write(folder.path().join("service.txt"), "5ms\n").expect("a file");
    let mut command = Command::new(CURTAIL);
    command.args(["jitter", "http://127.0.0.1:1/", "--queries", "queries.txt", "--repeat", "20"]);
    command.args(["--turn", "300ms", "--out", "."]).current_dir(folder.path());
    let output = command.output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(folder.path().join("service.txt")).expect("text"), "5ms\n");
}
