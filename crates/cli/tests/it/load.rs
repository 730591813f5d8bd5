//! Tests the output of `curtail load` for people and programs, including runs against failing
//! servers, and runs that are interrupted: no request that was due is missing from the results.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::harness::serving::{Server, interrupted, respond, saying, url};
use crate::harness::words::{curtail, curtail_in, folder, latencies, read, read_json};
use crate::harness::{CURTAIL, until, wait};
use curtail_machine::Processors;

#[test]
fn an_interrupted_load_reports_it() {
    let server = Server::start(200);
    let endless = "--rate 100 --duration 1h";
    server.interrupted_after(20, endless).ends(130).prints(["\ninterrupted: partial results"]);
    let report = server.interrupted_after(20, &format!("{endless} --json")).ends(130).json();
    assert_eq!((&report["partial"], &report["valid"]), (&true.into(), &false.into()));
    assert_eq!(report["invalid_because"][0]["kind"], "interrupted");
    let none = server.interrupted_after(5, "--rate 100 --warmup 1h").ends(130);
    assert_eq!(none.out, "");
    none.warns(["interrupted before anything was measured"]);
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
        curtail(&format!("load {line} --rate 9")).fails(2, why);
    }
    curtail("load https://127.0.0.1:9 --insecure --rate 100 --requests 1")
        .warns(["warning: --insecure: any certificate is accepted"]);
}

#[test]
fn what_follows_good_responses_makes_a_run_doubtful_and_what_follows_bad_ones_does_not() {
    let load = |head: &str| {
        let server = saying(format!("{head}GARBAGE"));
        curtail(&format!("load http://{server}/ --rate 100 --arrivals constant --requests 20"))
            .ends(1)
    };
    load("HTTP/1.1 503 \r\ncontent-length: 0\r\n\r\n")
        .prints(["20 requests, 20 without a good response"])
        .omits(["extraneous data", "good responses, which"]);
    load("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").prints([
        "20 requests, 0 without a good response",
        "extraneous data: 20 connections were closed because the server sent",
        "sent more after 20 of 20 good responses",
    ]);
}

#[test]
fn the_table_reports_once_that_the_load_fell_behind() {
    // No connection is accepted, so requests wait for the only connection until their timeout.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let line =
        format!("load http://{address}/ --rate 200 --requests 30 --connections 1 --timeout 200ms");
    let table = curtail(&line).ends(1).prints(["invalid: fell behind: "]);
    assert!(!table.err.contains("fell behind"), "{}", table.err);
    curtail(&format!("{line} --json"))
        .ends(1)
        .prints(["fell behind: "])
        .warns(["warning: the load generator fell behind: "]);
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
        curtail(&format!("load --rate 9 --stamps xdp {args}")).ends(code).warns([why]);
    }
}

#[test]
fn a_device_that_takes_no_timestamps_is_named_before_anything_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    for scheme in ["http", "udp"] {
        let line = format!("load {scheme}://{address} --stamps hardware --rate 9");
        let why = "lo does not timestamp all packets in hardware; it lacks hardware-transmit";
        curtail(&line).ends(3).warns(["--stamps: ", why]);
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
    let mut command = server.command(&format!("--rate 100 --duration 1h --processors {first}"));
    let mut running = command.stdout(Stdio::null()).spawn().expect("the binary starts");
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
        server.load(&format!("--rate 9 --processors {list}")).ends(2).warns([why]);
    }
}

#[test]
fn a_calibration_has_nothing_to_do_with_a_load() {
    for other in ["--rate 7", "--out here", "--processors 0", "--connections 3", "http://h/"] {
        curtail(&format!("load --calibrate {other}")).ends(2);
    }
    curtail("load").ends(2); // A load has a target.
}

#[test]
fn a_load_without_an_answer_is_written_when_it_is_interrupted() {
    let folder = folder(&[]);
    let out = folder.path().join("out");
    let asked = Arc::<AtomicU32>::default();
    let count = Arc::clone(&asked);
    let url = url(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        true
    });
    let server = Server { url, count: Arc::clone(&asked) };
    let line = "--rate 200 --duration 1h --connections 2 --out";
    let child = server.command(line).arg(&out).spawn().expect("the binary starts");
    until("both connections are in use", || asked.load(Ordering::Relaxed) == 2);
    // More requests are due, and no connection is free.
    std::thread::sleep(Duration::from_millis(100)); // tidy: real time
    let unfinished = "invalid: unfinished: when the run ended, 2 requests were in flight";
    interrupted(child).ends(130).prints([unfinished]);

    let result = read_json(out.join("result.json"));
    let of = |name: &str| result["report"]["errors"][name].as_u64().expect("a count");
    let (in_flight, overdue) = (of("in_flight"), of("overdue"));
    assert!(in_flight == 2 && overdue >= 10, "{result}");
    assert_eq!(result["report"]["requests"], in_flight + overdue);
    assert_eq!((&result["report"]["sent"], latencies(out.join("latency.hlog"))), (&2.into(), 0));
    assert_eq!(latencies(out.join("unanswered.hlog")), in_flight + overdue);
    let samples = read(out.join("samples.csv"));
    let rows = |kind: &str| samples.matches(&format!(",{kind},false,0\n")).count() as u64;
    assert_eq!((rows("in_flight"), rows("overdue")), (2, overdue), "{samples}");
    curtail_in(folder.path(), "report out").ends(0).prints(["invalid: unfinished", "≥"]);
}

#[test]
fn results_are_complete_if_stdout_is_closed() {
    let folder = folder(&[]);
    let (server, out) = (Server::start(200), folder.path().join("out"));
    let mut load = server.command("--rate 1000 --requests 60 --out");
    let mut child = load.arg(&out).spawn().expect("the binary starts");
    drop(child.stdout.take());
    assert_eq!(wait(&mut child), Some(3), "its output is lost");
    assert_eq!(latencies(out.join("latency.hlog")), 60);
    assert!(out.join("result.json").exists() && out.join("report.html").exists());

    let mut command = std::process::Command::new(CURTAIL);
    command.args(["report", "out", "--out", "page.html"]).current_dir(folder.path());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    assert_eq!(wait(&mut child), Some(3));
    assert!(read(folder.path().join("page.html")).ends_with("</html>\n"));
}

#[test]
fn connections_that_ran_out_are_named_rather_than_the_server() {
    let url = url(|stream| {
        std::thread::sleep(Duration::from_millis(10)); // tidy: real time
        respond(stream, "200 OK")
    });
    curtail(&format!("load {url} --arrivals constant -r 600 -n 300 -c 4"))
        .ends(1)
        .prints(["invalid: fell short: ", " found all 4 connections busy: use more (-c "])
        .omits(["does not sustain"]);
}
