//! What `curtail load` says to people and to programs, of servers that fail and of runs that are
//! interrupted.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::harness::answering::{Server, text};
use crate::harness::serving::{curtail, serve};
use crate::harness::{CURTAIL, until};
use curtail_jitter::machine::Processors;
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn an_interrupted_load_says_so() {
    let server = Server::start(200);
    let endless = ["--rate", "100", "--duration", "1h"];
    let output = server.interrupted_after(20, &endless);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("\ninterrupted: partial results"), "{said}");
    let json = [&endless[..], &["--json"]].concat();
    let output = server.interrupted_after(20, &json);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!(output.status.code(), Some(130));
    assert_eq!((&report["partial"], &report["valid"]), (&true.into(), &false.into()));
    assert_eq!(report["invalid_because"][0]["kind"], "interrupted");
}

#[test]
fn a_load_interrupted_in_its_warm_up_blames_nobody() {
    let server = Server::start(200);
    let args = ["--rate", "100", "--warmup", "1h"];
    let output = server.interrupted_after(5, &args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted before anything was measured"), "{said}");
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn who_interrupts_a_load_that_nobody_answers_is_told_how_much_was_sent() {
    let (asked, heard) = std::sync::mpsc::channel();
    let silent = serve(move |mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = asked.send(());
        drop(stream.read_to_end(&mut Vec::new()));
    });
    let mut command = Command::new(CURTAIL);
    command.args(["load", &format!("http://{silent}/"), "--rate", "100", "--duration", "1h"]);
    command.args(["--timeout", "60s"]).stdin(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("the binary starts");
    (0..5).for_each(|_| heard.recv().expect("a request"));
    kill_process(Pid::from_child(&child), Signal::INT).expect("a child of ours");
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    let sent = said.strip_prefix("requests sent: ").and_then(|rest| rest.split_once(';'));
    let (sent, rest) = sent.expect(&said);
    assert!(sent.parse::<u32>().is_ok_and(|sent| (5..1_000).contains(&sent)), "{said}");
    assert_eq!(rest, " none was answered yet\ninterrupted before anything was measured\n");
}

#[test]
fn a_flag_that_would_do_nothing_is_refused_by_its_name() {
    for (line, why) in [
        ("redis://h:1 --data PING --header a:b", "redis:// has no use for headers; leave them out"),
        ("memcached://h:1 --data version --header a:b", "memcached:// has no use for headers"),
        ("tcp://h:1 --data x --header a:b", "tcp:// has no use for headers"),
        ("udp://h:1 --header a:b", "udp:// has no use for headers"),
        ("http://h:1 --insecure", "http:// has no use for --insecure; use https://"),
        ("redis://h:1 --data PING --cacert x", "redis:// has no use for --cacert; use https://"),
    ] {
        let output = curtail(&format!("load {line} --rate 9"), &[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.starts_with("error: ") && said.contains(why), "{line}: {said}");
        assert_eq!(said.lines().count(), 1, "no warning beside it: {said}");
    }
    let taken = curtail("load https://127.0.0.1:9 --insecure --rate 100 --requests 1", &[]);
    let said = text(&taken.stderr);
    assert!(said.contains("warning: --insecure: any certificate is accepted"), "{said}");
}

#[test]
fn bad_statuses_are_no_matter_of_the_rate() {
    for (status, kind) in [(404, "(3xx or 4xx)"), (500, "(5xx)")] {
        let server = Server::start(status);
        let args = ["--rate", "200", "--requests", "40"];
        let output = server.load(&args).output().expect("the binary starts");
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let bad = format!("40 with a bad status {kind}");
        assert!(said.contains(&format!("40 without a good answer: {bad}")), "{said}");
        let short =
            format!("invalid: fell short: 0 of 40 requests were answered well and in time, {bad}");
        assert!(said.contains(&short), "{said}");
        assert!(said.contains(&format!(": status {status}")), "{said}");
        assert!(!said.contains("sustain"), "{said}");
    }
}

#[test]
fn a_dash_is_explained() {
    let server = Server::start(200);
    let args = ["--rate", "1000", "--requests", "30"];
    let output = server.load(&args).output().expect("the binary starts");
    let said = text(&output.stdout);
    assert!(said.contains("p99 takes 1000 good answers, p99.9 takes 10000"), "{said}");
}

#[test]
fn who_reads_the_table_is_not_told_twice_that_the_load_fell_behind() {
    // Nobody accepts: requests wait for the one connection until their time is out.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("its address"));
    let args = ["--rate", "200", "--requests", "30", "--connections", "1", "--timeout", "200ms"];
    let run = |json: &[&str]| {
        let mut command = Command::new(CURTAIL);
        command.args(["load", &url]).args(args).args(json).stdin(Stdio::null());
        let output = command.output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(1));
        (text(&output.stdout), text(&output.stderr))
    };
    let (table, aside) = run(&[]);
    assert!(table.contains("invalid: fell behind: "), "{table}");
    assert!(!aside.contains("fell behind"), "{aside}");
    let (document, aside) = run(&["--json"]);
    assert!(document.contains("fell behind: "), "{document}");
    assert!(aside.contains("warning: the load generator fell behind: "), "{aside}");
}

#[test]
fn what_does_not_go_past_the_network_stack_is_told_with_what_does() {
    let load = |args: &str| {
        let mut command = Command::new(CURTAIL);
        command.args(["load", "--rate", "9", "--stamps", "xdp"]).args(args.split_whitespace());
        let output = command.output().expect("the binary starts");
        (output.status.code(), text(&output.stderr))
    };
    for (args, code, why) in [
        (
            "udp://127.0.0.1:9",
            3,
            "127.0.0.1 is this machine, and nothing goes past the network stack",
        ),
        ("udp://[::1]:9", 3, "over IPv4 only"),
        ("http://127.0.0.1:9/", 2, "write udp://HOST:PORT"),
        ("udp://127.0.0.1:9 --connections 2", 2, "leave out --connections (here: 2)"),
        ("udp://127.0.0.1:9 --size 1473", 2, "at most 1472 fit: use a smaller --size"),
        ("udp://127.0.0.1:9 --agents 127.0.0.1:1", 2, "--stamps xdp does not go with --agents"),
    ] {
        let (found, said) = load(args);
        assert!(found == Some(code) && said.contains(why), "{args}: {found:?} {said}");
    }
}

/// The processors that each thread of a process may run on, by the thread's name.
fn processors(process: u32) -> BTreeMap<String, String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let of_thread = |folder: fs::DirEntry| {
        // It may have ended.
        let status = fs::read_to_string(folder.path().join("status")).ok()?;
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let (name, allowed) = (field("Name:")?, field("Cpus_allowed_list:")?);
        Some((name.trim().to_owned(), allowed.trim().to_owned()))
    };
    threads.filter_map(|folder| of_thread(folder.ok()?)).collect()
}

#[test]
fn a_thread_that_sends_has_its_processor_to_itself() {
    let server = Server::start(200);
    let allowed = Processors::allowed().expect("Linux");
    let first = allowed.numbers()[0].to_string();
    let args = ["--rate", "100", "--duration", "1h", "--processors", &first];
    let mut running = server.load(&args).stdout(Stdio::null()).spawn().expect("the binary starts");
    let mut threads = processors(running.id());
    until("the thread that sends keeps to its processor", || {
        threads = processors(running.id());
        threads.get("load-0") == Some(&first)
    });
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    if allowed.numbers().len() > 1 {
        let beside = threads.iter().filter(|(_, on)| **on == first || on.starts_with("0-"));
        assert!(beside.map(|(name, _)| name).eq(["load-0"]), "{threads:?}");
    }
    for (list, why) in [
        ("1023", "--processors: processor 1023 is none that this program may run on, which are "),
        ("0,1", "threads: 1, processors: 2; name one processor for each thread"),
        ("3-1", "`3-1` is no processor"),
    ] {
        let output = server.load(&["--rate", "9", "--processors", list]).output();
        let output = output.expect("the binary starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{list}: {said}");
        assert!(said.contains(why), "{list}: {said}");
    }
}

#[test]
fn a_calibration_has_nothing_to_do_with_a_load() {
    for other in [["--rate", "7"], ["--out", "here"], ["--processors", "0"], ["--connections", "3"]]
    {
        let mut command = Command::new(CURTAIL);
        let output = command.args(["load", "--calibrate"]).args(other).output();
        let output = output.expect("the binary starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{other:?}: {said}");
        assert!(said.contains("--calibrate") && said.contains(other[0]), "{other:?}: {said}");
    }
}
