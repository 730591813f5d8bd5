//! The binary as people and scripts meet it: exit codes, messages, signals, and what it leaves
//! behind.

mod harness;

use std::process::{Command, Output, Stdio};

use harness::{CURTAIL, Service, until, wait};
use rustix::process::{Pid, Signal, kill_process};

fn curtail(args: &[&str]) -> Output {
    Command::new(CURTAIL).args(args).stdin(Stdio::null()).output().expect("the binary starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const GOOD: &str = "[listen]\nhttp = \"127.0.0.1:0\"\nadmin = false\n[[service]]\nname = \"s\"\n\
    policy = \"psq\"\nslots = 1\n[[service.shard]]\nname = \"0\"\nreplicas = [\"127.0.0.1:9\"]\n";

fn checked(text: &str) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("proxy.toml");
    std::fs::write(&file, text).expect("a file");
    curtail(&["proxy", "--config", &file.display().to_string(), "--check"])
}

#[test]
fn check_tells_good_from_bad() {
    assert_eq!(checked(GOOD).status.code(), Some(0));
    let bad = checked(&GOOD.replace("psq", "laedge:cc"));
    assert_eq!(bad.status.code(), Some(2));
    let said = said(&bad);
    assert!(said.contains("proxy.toml:6: \"laedge:cc\"") && said.contains("cancel"), "{said}");
}

#[test]
fn bad_input_is_two_and_names_the_mend() {
    for (args, word) in [
        (&["load", "ftp://x", "--rate", "5"][..], "http://"),
        (&["load", "http://127.0.0.1:1/", "--rate", "0"], "rate"),
        (&["demo", "--loads", "1.5"], "below 1"),
        (&["demo", "--policies", "lædge"], "use one of"),
        (&["demo", "--hiccup", "2:3ms"], "0 to 1"),
        (&["demo", "--service-time", "det:0ms"], "10us"),
        (&["proxy", "--config", "/nowhere/at/all.toml"], "/nowhere/at/all.toml"),
        (&["frobnicate"], "frobnicate"),
    ] {
        let output = curtail(args);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(word), "{args:?}: {said}");
    }
}

#[test]
fn a_port_that_is_taken_is_three() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("proxy.toml");
    std::fs::write(&file, GOOD.replace("127.0.0.1:0", &address)).expect("a file");
    let output = curtail(&["proxy", "--config", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(3));
    assert!(said(&output).contains(&address), "{}", said(&output));
}

#[test]
fn a_leaf_without_an_index_is_bad_input() {
    let output = curtail(&["leaf", "--index", "/nowhere/at/all", "--shard", "0"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("/nowhere/at/all"));
}

#[test]
fn the_schema_is_printed_without_a_file() {
    let output = curtail(&["proxy", "--schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert!(
        output.status.success() && schema["$defs"]["Service"]["properties"]["slots"].is_object()
    );
    assert_eq!(curtail(&["proxy"]).status.code(), Some(2), "one of the two must be given");
}

#[test]
fn the_proxy_drains_on_sigterm_and_survives_sighup() {
    let service = Service::start("psq", "");
    let Service { proxy, .. } = service;
    proxy.signal(Signal::HUP);
    proxy.signal(Signal::TERM);
    assert_eq!(proxy.wait(), Some(0));
}

#[test]
fn children_end_with_their_parent() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("proxy.toml");
    std::fs::write(&file, GOOD).expect("a file");
    let config = file.display().to_string();
    let mut child = Command::new(CURTAIL)
        .args(["proxy", "--config", &config, "--announce", "--tied-to-stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    drop(child.stdin.take());
    assert_eq!(wait(&mut child), Some(0), "the end of stdin is the word to drain");
}

/// Processes that mention a path on their command line. Linux only: there is no portable way.
#[cfg(target_os = "linux")]
fn mentioning(path: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(path)).count()
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_demo_writes_what_it_has_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let texts = folder.path().join("texts");
    std::fs::create_dir(&texts).expect("a folder");
    for n in 0..40 {
        let text = format!("common words and word{n} in a text about subject{}", n % 7);
        std::fs::write(texts.join(format!("{n}.txt")), text.repeat(3)).expect("a file");
    }
    let (texts, out) = (texts.display().to_string(), folder.path().join("out"));
    let path = out.display().to_string();
    let mut demo = Command::new(CURTAIL)
        .args(["demo", "--corpus", &texts, "--out", &path, "--loads", "0.2", "--json"])
        .args([
            "--policies",
            "psq,laedge",
            "--requests",
            "100000",
            "--shards",
            "2",
            "--pause",
            "20:50ms",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    // The demo itself and four leaves.
    until("all leaves run", || mentioning(&path) >= 5);
    let pid = Pid::from_child(&demo);
    kill_process(pid, Signal::INT).expect("a child of ours");
    assert_eq!(wait(&mut demo), Some(130));
    until("every leaf is gone", || mentioning(&path) == 0);
    let results = std::fs::read_to_string(out.join("results.json")).expect("what there is");
    assert!(results.contains("\"partial\": true"), "{results}");
    assert!(out.join("report.html").exists());
}

#[test]
fn load_reports_json_and_nothing_else_on_stdout() {
    let service = Service::start("psq", "");
    let url = format!("http://{}/search?q=common", service.proxy.address);
    let output = curtail(&["load", &url, "--rate", "100", "--requests", "50", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!(report["requests"], 50);
    assert_eq!(report["errors"]["connect"], 0);
    assert!(report["latency_ns"]["p99"].is_null(), "50 samples do not make a 99th percentile");
}
