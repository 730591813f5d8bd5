//! Tests the output of `curtail load` for people and programs, including runs against failing
//! servers and interrupted runs.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::harness::answering::{Server, text};
use crate::harness::serving::{curtail, saying};
use crate::harness::{CURTAIL, until};
use curtail_jitter::machine::Processors;

#[test]
fn an_interrupted_load_reports_it() {
    let server = Server::start(200);
    let endless = ["--rate", "100", "--duration", "1h"];
    let output = server.interrupted_after(20, &endless);
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{stdout}");
    assert!(stdout.contains("\ninterrupted: partial results"), "{stdout}");
    let json = [&endless[..], &["--json"]].concat();
    let output = server.interrupted_after(20, &json);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!(output.status.code(), Some(130));
    assert_eq!((&report["partial"], &report["valid"]), (&true.into(), &false.into()));
    assert_eq!(report["invalid_because"][0]["kind"], "interrupted");

    let output = server.interrupted_after(5, &["--rate", "100", "--warmup", "1h"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("interrupted before anything was measured"), "{stderr}");
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn a_flag_without_effect_is_rejected_by_name() {
    for (line, why) in [
        (
            "redis://h:1 --data PING --header a:b",
            "redis:// does not support headers; leave them out",
        ),
        ("http://h:1 --insecure", "http:// does not support --insecure; use https://"),
        ("redis://h:1 --data PING --cacert x", "redis:// does not support --cacert; use https://"),
        ("http://h:1 --max-response 10", "like 10MB"),
        ("http://no-such-host.invalid/", "check the name, or write an IP address"),
    ] {
        let output = curtail(&format!("load {line} --rate 9"), &[]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(why), "{line}: {stderr}");
    }
    let taken = curtail("load https://127.0.0.1:9 --insecure --rate 100 --requests 1", &[]);
    let stderr = text(&taken.stderr);
    assert!(stderr.contains("warning: --insecure: any certificate is accepted"), "{stderr}");
}

#[test]
fn what_follows_good_responses_makes_a_run_doubtful_and_what_follows_bad_ones_does_not() {
    let load = |head: &str| {
        let server = saying(format!("{head}GARBAGE"));
        let line = format!("load http://{server}/ --rate 100 --arrivals constant --requests 20");
        let output = curtail(&line, &[]);
        assert_eq!(output.status.code(), Some(1));
        text(&output.stdout)
    };
    let bad = load("HTTP/1.1 503 \r\ncontent-length: 0\r\n\r\n");
    assert!(bad.contains("20 requests, 20 without a good response"), "{bad}");
    assert!(!bad.contains("extraneous data") && !bad.contains("good responses, which"), "{bad}");
    let good = load("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    assert!(good.contains("20 requests, 0 without a good response"), "{good}");
    assert!(
        good.contains("extraneous data: 20 connections were closed because the server sent"),
        "{good}"
    );
    assert!(good.contains("sent more after 20 of 20 good responses"), "{good}");
}

#[test]
fn the_table_reports_once_that_the_load_fell_behind() {
    // No connection is accepted, so requests wait for the only connection until their timeout.
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
fn plans_that_xdp_cannot_run_are_rejected_with_the_reason() {
    for (args, code, why) in [
        (
            "udp://127.0.0.1:9",
            3,
            "127.0.0.1 is this machine, where the network stack cannot be bypassed",
        ),
        ("udp://[::1]:9", 3, "only over IPv4"),
        ("http://127.0.0.1:9/", 2, "or leave out --stamps xdp"),
        ("udp://127.0.0.1:9 --connections 2", 2, "leave out --connections (here: 2)"),
        ("udp://127.0.0.1:9 --size 1473", 2, "allows at most 1472: use a smaller --size"),
        ("udp://127.0.0.1:9 --agents 127.0.0.1:1", 2, "agents do not support --stamps xdp"),
    ] {
        let output = curtail(&format!("load --rate 9 --stamps xdp {args}"), &[]);
        let (found, stderr) = (output.status.code(), text(&output.stderr));
        assert!(found == Some(code) && stderr.contains(why), "{args}: {found:?} {stderr}");
    }
}

#[test]
fn a_device_that_takes_no_timestamps_is_named_before_anything_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    for scheme in ["http", "udp"] {
        let output = curtail(&format!("load {scheme}://{address} --stamps hardware --rate 9"), &[]);
        let (found, stderr) = (output.status.code(), text(&output.stderr));
        let why =
            "--stamps: lo does not timestamp all packets in hardware; it lacks hardware-transmit";
        assert!(found == Some(3) && stderr.contains(why), "{found:?} {stderr}");
    }
    listener.set_nonblocking(true).expect("a socket");
    assert!(listener.accept().is_err(), "something was sent");
}

/// Returns the processors that each thread of a process may run on, by thread name.
fn processors(process: u32) -> BTreeMap<String, String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let of_thread = |folder: fs::DirEntry| {
        // The thread may have ended.
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
    until("the sending thread stays on its processor", || {
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
        ("1023", "--processors: this program may not run on processor 1023, only on "),
        ("0,1", "threads: 1, processors: 2; name one processor for each thread"),
        ("3-1", "`3-1` is not a processor"),
    ] {
        let output = server.load(&["--rate", "9", "--processors", list]).output();
        let output = output.expect("the binary starts");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{list}: {stderr}");
        assert!(stderr.contains(why), "{list}: {stderr}");
    }
}

#[test]
fn a_calibration_has_nothing_to_do_with_a_load() {
    for other in ["--rate 7", "--out here", "--processors 0", "--connections 3", "http://h/"] {
        let output = curtail(&format!("load --calibrate {other}"), &[]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{other}: {stderr}");
    }
    assert_eq!(curtail("load", &[]).status.code(), Some(2), "a load has a target");
}
