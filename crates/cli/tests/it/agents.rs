//! Tests loads that `curtail load` sends through agents.

use std::net::TcpListener;
use std::process::Command;

use crate::harness::serving::Server;
use crate::harness::words::{folder, read_json, run};
use crate::harness::{CURTAIL, Process};
use rustix::process::Signal;

#[test]
fn agents_send_one_load_together() {
    let (server, folder) = (Server::start(200), folder(&[]));
    let agents: Vec<Process> =
        (0..2).map(|_| Process::start("agent --listen 127.0.0.1:0")).collect();
    let addresses: Vec<String> = agents.iter().map(|agent| agent.address.to_string()).collect();
    let addresses = addresses.join(",");
    let out = folder.path().join("out");
    let line =
        format!("--rate 400 --requests 400 --agents {addresses} --out {} --json", out.display());
    let found = server.load(&line).json();
    assert_eq!(found["requests"], 400, "{found}");
    assert_eq!(server.answered(), 400, "each request was sent once");
    let parts = found["agents"].as_array().expect("agents");
    let requests: u64 = parts.iter().filter_map(|part| part["requests"].as_u64()).sum();
    assert_eq!((parts.len(), requests), (2, 400), "{found}");
    assert!(found["start_skew_ns"].as_u64().is_some(), "{found}");
    assert_eq!(read_json(out.join("result.json"))["report"]["requests"], 400);
    // After the first load, the agents can serve another one, and the table lists each agent.
    let again = server.load(&format!("--rate 200 --requests 20 --agents {addresses}"));
    let names: Vec<&str> = addresses.split(',').collect();
    again.prints([names[0], names[1]]);
    for agent in agents {
        agent.signal(Signal::TERM);
        assert_eq!(agent.wait(), Some(0));
    }
}

#[test]
fn plans_that_agents_cannot_run_are_rejected_before_sending() {
    let (server, folder) = (Server::start(200), folder(&[("empty", "")]));
    let unused = TcpListener::bind("127.0.0.1:0").expect("a port");
    let free = unused.local_addr().expect("an address").to_string();
    drop(unused);
    let empty = folder.path().join("empty").display().to_string();
    for (args, code, why) in [
        (format!("--agents {free}"), 3, &free[..]),
        ("--agents nowhere".to_owned(), 2, "--agents"),
        (format!("--agents {free} --token-file /no/such/file"), 2, "/no/such/file"),
        (format!("--agents {free} --token-file {empty}"), 2, "--token-file"),
        (format!("--token-file {empty}"), 2, "--agents"),
    ] {
        server.load(&format!("--rate 100 --requests 10 {args}")).ends(code).warns([why]);
    }
    assert_eq!(server.answered(), 0);
}

#[test]
fn beyond_loopback_an_agent_needs_a_token() {
    let mut command = Command::new(CURTAIL);
    command.args(["agent", "--listen", "0.0.0.0:0"]).env_remove("CURTAIL_AGENT_TOKEN");
    run(&mut command).fails(2, "--token-file");
}
