//! What `curtail load` says of servers that are not what they should be: it names what was found and what
//! to do, and comes to an end.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::harness::answering::text;
use crate::harness::serving::{curtail, http, saying, saying_to_lines, serve};
use serde_json::Value;

const FINE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Twenty requests, which all fail: what is said.
fn failing(target: &str, more: &[&str]) -> String {
    let start = Instant::now();
    let output = curtail(&format!("load {target} --rate 200 --requests 20 --timeout 500ms"), more);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}{}", text(&output.stderr));
    assert!(said.contains("20 requests, 20 without a good answer"), "{said}");
    assert!(start.elapsed() < Duration::from_secs(20), "it took {:?}", start.elapsed());
    said
}

#[test]
fn a_server_of_another_protocol_is_told_with_what_to_look_at() {
    let memcached = saying_to_lines("ERROR\r\n");
    let redis = saying_to_lines("-ERR wrong number of arguments for 'get' command\r\n");
    let web = saying_to_lines("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    let port = "is it the right port?";
    let get = ["--data", "get a"];
    for (target, more, why) in [
        (format!("http://{memcached}/"), &[][..], "the answer is not HTTP/1; "),
        (format!("http://{redis}/"), &[], "the answer is not HTTP/1; "),
        (format!("http://{memcached}/"), &["--http2"], "the server does not speak HTTP/2; "),
        (
            format!("memcached://{web}"),
            &get,
            "`HTTP/1.1 400 Bad Request` is no answer of memcached; ",
        ),
        (format!("memcached://{redis}"), &get, "is no answer of memcached; "),
        (
            format!("redis://{web}"),
            &get,
            "`HTTP/1.1 400 Bad Request` is not RESP2, which Redis speaks; ",
        ),
        (format!("redis://{memcached}"), &get, "`ERROR` is not RESP2, which Redis speaks; "),
    ] {
        let said = failing(&target, more);
        assert!(said.contains(&format!("{why}{port}")), "{target} {more:?}: {said}");
        assert!(said.contains("20 answered by what is no answer of the protocol"), "{said}");
    }
    let said = failing(&format!("http://{web}/"), &["--http2"]);
    assert!(said.contains("the server answered HTTP/1 to HTTP/2; leave out --http2"), "{said}");
    let said = failing(&format!("grpc://{web}/a.B/C"), &[]);
    assert!(said.contains("the server answered HTTP/1 to HTTP/2, which gRPC needs"), "{said}");
}

#[test]
fn where_nobody_listens_or_answers_it_is_said_what_was_waited_for() {
    let unused = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it");
    let said = failing(&format!("http://{unused}/"), &[]);
    assert!(said.contains("cannot connect: Connection refused"), "{said}");
    let silent = serve(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let said = failing(&format!("http://{silent}/"), &[]);
    assert!(said.contains(": no answer in time; last one after"), "{said}");
    let said = failing(&format!("https://{silent}/"), &["--insecure"]);
    assert!(said.contains("no answer in time: TLS was not agreed on; if the server"), "{said}");
    let said = failing(&format!("http://{silent}/"), &["--connections", "1"]);
    assert!(said.contains("without an answer in time"), "{said}");
    let output = curtail("load http://no-such-host.invalid/ --rate 10 --requests 1", &[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot resolve no-such-host.invalid"), "{said}");
}

#[test]
fn tls_that_is_refused_or_none_at_all_is_told() {
    // As web servers do when a client greets them in TLS.
    let plain = serve(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    });
    let said = failing(&format!("https://{plain}/"), &[]);
    assert!(said.contains("the server speaks no TLS; leave out the s of the scheme"), "{said}");
    let closing = serve(drop);
    let said = failing(&format!("https://{closing}/"), &[]);
    assert!(said.contains("the server closed before TLS was agreed on"), "{said}");
}

#[test]
fn an_answer_beyond_the_bound_is_refused_and_the_bound_can_be_raised() {
    let long = format!("HTTP/1.1 200 OK\r\ncontent-length: 20000\r\n\r\n{}", "x".repeat(20_000));
    let server = saying(long);
    let said = failing(&format!("http://{server}/"), &["--max-response", "10kB"]);
    assert!(said.contains("the answer is longer than 10000 bytes; raise --max-response"), "{said}");
    let fine = format!("load http://{server}/ --rate 200 --requests 20 --max-response 20KiB");
    assert!(text(&curtail(&fine, &[]).stdout).contains("20 requests, 0 without a good answer"));
    let endless = serve(|mut stream| while stream.write_all(&[b'x'; 4096]).is_ok() {});
    let line = format!("tcp://{endless}");
    let said = failing(&line, &["--data", "a", "--max-response", "1MB"]);
    assert!(said.contains("the answer is longer than 1000000 bytes"), "{said}");
    let bad = curtail("load http://127.0.0.1:1/ --rate 1 --max-response 10", &[]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(text(&bad.stderr).contains("like 10MB"), "{}", text(&bad.stderr));
}

#[test]
fn an_answer_that_comes_byte_by_byte_is_whole_in_the_end() {
    let server = serve(|stream| {
        http(&stream, |stream| {
            FINE.bytes().all(|byte| {
                std::thread::sleep(Duration::from_millis(1)); // tidy: real time
                stream.write_all(&[byte]).is_ok()
            })
        });
    });
    let line = format!("load http://{server}/ --rate 100 --requests 20 --json");
    let report: Value = serde_json::from_slice(&curtail(&line, &[]).stdout).expect("JSON alone");
    assert_eq!((&report["requests"], &report["errors"]["timeout"]), (&20.into(), &0.into()));
    let least = FINE.len() as u64 * 1_000_000;
    assert!(report["latency_ns"]["max"].as_u64().is_some_and(|ns| ns >= least), "{report}");
}

#[test]
fn what_follows_bad_answers_makes_no_good_one_doubtful() {
    let server = saying("HTTP/1.1 503 \r\ncontent-length: 0\r\n\r\nGARBAGE");
    let line = format!("load http://{server}/ --rate 100 --arrivals constant --requests 20");
    let said = text(&curtail(&line, &[]).stdout);
    assert!(said.contains("20 requests, 20 without a good answer"), "{said}");
    assert!(!said.contains("unasked") && !said.contains("good answers, which"), "{said}");
}

#[test]
fn what_follows_good_answers_is_told_and_makes_the_run_doubtful() {
    let server = saying(format!("{FINE}GARBAGE"));
    let line = format!("load http://{server}/ --rate 100 --arrivals constant --requests 20");
    let output = curtail(&line, &[]);
    let said = text(&output.stdout);
    assert!(said.contains("20 requests, 0 without a good answer"), "{said}");
    assert!(said.contains("unasked: 20 connections were closed because the server sent"), "{said}");
    assert!(said.contains("sent more behind 20 of 20 good answers"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_server_that_dies_is_told_with_when_and_how_many() {
    let left = Arc::new(AtomicU32::new(60));
    let server = serve(move |stream| {
        http(&stream, |stream| {
            let live =
                left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            live.is_ok() && stream.write_all(FINE.as_bytes()).is_ok()
        });
    });
    let line = format!("load http://{server}/ --rate 200 --arrivals constant --requests 100");
    let output = curtail(&line, &[]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("100 requests, 40 without a good answer: 40 cut off by the server"),
        "{said}"
    );
    let when = said.lines().find(|line| line.starts_with("first failure after 0.")).expect("when");
    assert!(when.contains("; the last good answer came after 0."), "{when}");
    // The last good answer may overtake the first failures, on another connection.
    let since =
        when.strip_suffix(" requests have failed since").and_then(|when| when.rsplit(' ').next());
    let since: u32 = since.and_then(|since| since.parse().ok()).expect(when);
    assert!((30..=40).contains(&since), "{when}");
}

#[test]
fn more_connections_than_open_files_are_refused_before_anything_is_sent() {
    let server = saying(FINE);
    let limited = |connections: &str| {
        let load = format!(
            "ulimit -n 60; exec {} load http://{server}/ --rate 200 --requests 20 --connections {connections}",
            crate::harness::CURTAIL
        );
        std::process::Command::new("sh").args(["-c", &load]).output().expect("a shell")
    };
    let output = limited("500");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("500 connections need") && said.contains("use at most 24, or"), "{said}");
    let said = text(&limited("24").stdout);
    assert!(said.contains("20 requests, 0 without a good answer"), "{said}");
}

#[test]
fn a_calibration_takes_no_target_and_a_load_does() {
    let both = curtail("load --calibrate http://127.0.0.1:1/", &[]);
    assert_eq!(both.status.code(), Some(2), "{}", text(&both.stderr));
    assert_eq!(curtail("load", &[]).status.code(), Some(2));
}
