//! Tests every protocol except HTTP/1.1 over sockets. Tests without sockets (`session/tests`) cover
//! how responses end and what servers send.

use std::fs;

use crate::common::{MS, Server, measure, observe, plan_of, say, serve_http2, udp_echo, unused};
use curtail_load::{Batch, Errors, Pace, Plan, Report, ResponseEnd};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_come_back_and_duplicates_are_ignored() {
    let address = udp_echo(|number| 1 + usize::from(number % 3 == 0)).await;
    let mut plan = plan_of("udp", address, 2_000.0, 500);
    plan.connections = 2;
    let report = measure(&plan).await;
    assert_eq!((report.errors.total(), report.histogram.len()), (0, 500), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_datagrams_time_out_and_nothing_waits_for_them() {
    let address = udp_echo(|number| usize::from(number % 10 != 0)).await;
    let mut plan = plan_of("udp", address, 1_000.0, 300);
    (plan.connections, plan.protocol.datagram_bytes, plan.timeout_ns) = (1, 1000, 500 * MS);
    let report = measure(&plan).await;
    let errors = Errors { timeout: 30, ..Errors::default() };
    assert_eq!(report.errors, errors, "{report:?}");
    // The responses did not have to wait for the lost ones.
    assert!(report.histogram.max() < 400 * MS, "{:?}", report.latency_ns);
}

#[tokio::test]
async fn a_port_without_a_listener_is_reported() {
    let report = measure(&plan_of("udp", unused().await, 500.0, 20)).await;
    assert_eq!(report.errors.connect, 20, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_loop_has_one_datagram_in_flight() {
    let mut plan = plan_of("udp", udp_echo(|_| 1).await, 1.0, 2_000);
    (plan.pace, plan.connections) = (Pace::Closed, 1);
    let report = measure(&plan).await;
    assert_eq!((report.requests, report.errors.total()), (2_000, 0), "none overran the server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_are_counted_by_kind() {
    let refused = Errors { refused: 10, ..Errors::default() };
    let full = "SERVER_ERROR out of memory storing object\r\n";
    for (scheme, query, answer, errors) in [
        ("memcached", "get hit", "VALUE hit 0 5\r\nhello\r\nEND\r\n", Errors::default()),
        ("memcached", "set key 'a value'", full, refused),
        ("redis", "LRANGE list", "*2\r\n$1\r\na\r\n:5\r\n", Errors::default()),
        ("redis", "GET set", "-WRONGTYPE not a string\r\n", refused),
        ("tcp", r"ping\n", "pong\n", Errors::default()),
        ("tcp", "1", "1234567\0\0", Errors::default()),
    ] {
        let server = Server::start(move |mut stream| async move {
            while stream.read(&mut [0; 64]).await.is_ok_and(|count| count > 0) {
                // The response is sent in two writes. The first one may end inside the delimiter.
                let (head, tail) = answer.split_at(answer.len() - 1);
                say(&mut stream, head).await;
                say(&mut stream, tail).await;
            }
        })
        .await;
        let mut plan = plan_of(scheme, server.address, 500.0, 10);
        plan.queries = vec![query.to_owned()];
        if answer.ends_with("\0\0") {
            plan.protocol.response_end = ResponseEnd::Until(b"\0\0".to_vec());
        }
        let report = measure(&plan).await;
        assert_eq!(report.errors, errors, "{query}: {report:?}");
        if let Some(failures) = report.failures {
            let message = answer.trim_end().trim_start_matches('-');
            assert_eq!(failures.first, format!("the server reported: {message}"));
        }
    }
}

/// Returns a plan for HTTP/2 over one connection.
fn plan(server: &Server, requests: u64, queries: &[&str]) -> Plan {
    let mut plan = server.plan(500.0, requests);
    (plan.protocol.http2, plan.connections) = (true, 1);
    plan.queries = queries.iter().map(|query| (*query).to_owned()).collect();
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_go_both_ways_over_one_connection() {
    let server = Server::start(serve_http2).await;
    let big = format!(r#"{{"path": "/echo", "body": "{}"}}"#, "b".repeat(200_000));
    let mut plan = plan(&server, 60, &["/a", r#"{"path": "/echo", "body": "twelve bytes"}"#, &big]);
    plan.headers = vec![("X-Some".to_owned(), "thing".to_owned())];
    let mut sizes = Vec::new();
    let report = observe(&plan, |answer| sizes.push(answer.body_bytes())).await;
    assert_eq!((report.errors.total(), report.histogram.len()), (0, 60), "{report:?}");
    sizes.sort_unstable();
    assert_eq!(sizes, [[0; 20], [12; 20], [200_000; 20]].concat());
    assert_eq!(server.accepted(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_to_a_silent_server_is_reopened() {
    let server = Server::start(async |mut stream: TcpStream| {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let mut plan = plan(&server, 3, &[]);
    (plan.pace, plan.timeout_ns) = (Pace::constant(10.0), 50 * MS);
    let report = measure(&plan).await;
    assert_eq!((report.errors.timeout, server.accepted()), (3, 3), "{report:?}");
}

const PROTO: &str = r#"
syntax = "proto3";
package test;
message Words { string text = 1; int64 number = 2; }
service Echo {
  rpc Say(Words) returns (Words);
  rpc Watch(Words) returns (stream Words);
}
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_json_with_a_schema() {
    let server = Server::start(serve_http2).await;
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("echo.proto");
    fs::write(&source, PROTO).unwrap();
    let described = protox::compile([&source], [directory.path()]).unwrap();
    let set = directory.path().join("echo.pb");
    fs::write(&set, prost_reflect::prost::Message::encode_to_vec(&described)).unwrap();
    // Field 1 is `ok`.
    let raw = r#"{"base64": "CgJvaw=="}"#;
    let json = r#"{"text": "hello", "number": 5}"#;
    // The sizes include the message prefix.
    for (file, message, bytes) in [(None, raw, 9), (Some(&source), json, 14), (Some(&set), "{}", 5)]
    {
        let mut plan = plan(&server, 20, &[message]);
        plan.protocol.http2 = false;
        plan.target = format!("grpc://{}/test.Echo/Say", server.address).parse().unwrap();
        plan.protocol.schema = file.cloned();
        let mut sizes = Vec::new();
        let report =
            observe(&plan, |answer| sizes.push((answer.good(), answer.body_bytes()))).await;
        assert_eq!(report.errors.total(), 0);
        assert_eq!(sizes, [(true, bytes); 20], "{report:?}");
    }
    let bad = directory.path().join("bad");
    fs::write(&bad, "no descriptors").unwrap();
    let missing = directory.path().join("missing");
    for (file, target, message, why) in [
        (None, "test.Echo/Say", json, "--proto FILE"),
        (Some(&set), "test.Echo/Say", r#"{"word": 1}"#, "is not a test.Words as JSON"),
        (Some(&source), "test.Echo/Shout", "{}", "has no method Shout; it has Say, Watch"),
        (Some(&set), "test.Other/Say", "{}", "has no service test.Other; it has test.Echo"),
        (Some(&source), "test.Echo/Watch", "{}", "Watch is a stream"),
        (Some(&bad), "test.Echo/Say", "{}", "descriptor_set_out"),
        (Some(&missing), "test.Echo/Say", "{}", "check the path"),
    ] {
        let mut plan = plan(&server, 1, &[message]);
        plan.protocol.http2 = false;
        plan.target = format!("grpc://h:1/{target}").parse().unwrap();
        plan.protocol.schema = file.cloned();
        let error = plan.check().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

/// Measures `requests` requests over one connection, at 1,000 per second.
async fn piped(batch: &str, requests: u64) -> Report {
    let server = Server::start(|stream| async move {
        let mut lines = BufReader::new(stream);
        while lines.read_line(&mut String::new()).await.is_ok_and(|count| count > 0) {
            say(lines.get_mut(), "END\r\n").await;
        }
    })
    .await;
    let mut plan = plan_of("memcached", server.address, 1_000.0, requests);
    plan.queries = vec!["get a".to_owned()];
    (plan.connections, plan.protocol.pipeline) = (1, 100);
    plan.protocol.batch = batch.parse().unwrap();
    let report = measure(&plan).await;
    assert_eq!((report.errors.total(), report.connections_opened), (0, 1), "{:?}", report.failures);
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_sent_when_it_is_full_or_its_wait_is_over() {
    // Requests that wait for the connection to open are written with it, so the last batch may be
    // incomplete.
    let full = piped("500ms:4", 100).await;
    assert!(full.histogram.count_between(0, 400 * MS) >= 96, "{:?}", full.latency_ns);
    let late = piped("200ms", 100).await.latency_ns;
    assert!((200 * MS..900 * MS).contains(&late.max.unwrap()), "{late:?}");
    let nagle = piped("nagle", 100).await.latency_ns;
    assert!(nagle.max.unwrap() < 900 * MS, "{nagle:?}");
    for text in ["", "5", "1ms:0", "1ms:x"] {
        let error = text.parse::<Batch>().unwrap_err().to_string();
        assert!(error.contains("50us:16"), "{error}");
    }
}
