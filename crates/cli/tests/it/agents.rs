//! Tests loads that `curtail load` sends through agents.

use std::net::TcpListener;
use std::sync::atomic::Ordering;

use crate::harness::Process;
use crate::harness::answering::{Server, text};
use rustix::process::Signal;
use serde_json::Value;

fn agents() -> (Vec<Process>, String) {
    let agents: Vec<Process> =
        (0..2).map(|_| Process::start(&["agent", "--listen", "127.0.0.1:0"])).collect();
    let addresses: Vec<String> = agents.iter().map(|agent| agent.address.to_string()).collect();
    (agents, addresses.join(","))
}

#[test]
fn agents_send_one_load_together() {
    let (server, (agents, addresses), folder) =
        (Server::start(200), agents(), tempfile::tempdir().expect("a folder"));
    let out = folder.path().join("out").display().to_string();
    let args = ["--rate", "400", "--requests", "400", "--agents", &addresses, "--out", &out];
    let output = server.load(&[&args[..], &["--json"]].concat()).output().expect("it starts");
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no JSON: {}", text(&output.stderr)));
    assert_eq!(found["requests"], 400, "{found}");
    assert_eq!(server.answered.load(Ordering::Relaxed), 400, "each request was sent once");
    let parts = found["agents"].as_array().expect("agents");
    let requests: u64 = parts.iter().filter_map(|part| part["requests"].as_u64()).sum();
    assert_eq!((parts.len(), requests), (2, 400), "{found}");
    assert!(found["start_skew_ns"].as_u64().is_some(), "{found}");
    let written = std::fs::read_to_string(folder.path().join("out/result.json")).expect("a result");
    let written: Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!(written["report"]["requests"], 400);
    // After the first load, the agents can serve another one, and the table lists each agent.
    let args = ["--rate", "200", "--requests", "20", "--agents", &addresses];
    let stdout = text(&server.load(&args).output().expect("it starts").stdout);
    for agent in addresses.split(',') {
        assert!(stdout.contains(agent), "no {agent} in {stdout}");
    }
    for agent in agents {
        agent.signal(Signal::TERM);
        assert_eq!(agent.wait(), Some(0));
    }
}

#[test]
fn plans_that_agents_cannot_run_are_rejected_before_sending() {
    let (server, folder) = (Server::start(200), tempfile::tempdir().expect("a folder"));
    let unused = TcpListener::bind("127.0.0.1:0").expect("a port");
    let free = unused.local_addr().expect("an address").to_string();
    drop(unused);
    let empty = folder.path().join("empty").display().to_string();
    std::fs::write(&empty, "").expect("a file");
    for (args, code, why) in [
        (&["--agents", &free][..], 3, free.as_str()),
        (&["--agents", "nowhere"], 2, "--agents"),
        (&["--agents", &free, "--token-file", "/no/such/file"], 2, "/no/such/file"),
        (&["--agents", &free, "--token-file", &empty], 2, "--token-file"),
        (&["--token-file", &empty], 2, "--agents"),
    ] {
        let args = [&["--rate", "100", "--requests", "10"], args].concat();
        let output = server.load(&args).output().expect("it starts");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(why), "{args:?}: {stderr}");
    }
    assert_eq!(server.answered.load(Ordering::Relaxed), 0);
}

#[test]
fn beyond_loopback_an_agent_needs_a_token() {
    let mut command = std::process::Command::new(crate::harness::CURTAIL);
    command.args(["agent", "--listen", "0.0.0.0:0"]).env_remove("CURTAIL_AGENT_TOKEN");
    let output = command.output().expect("the binary starts");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--token-file"), "{stderr}");
}
