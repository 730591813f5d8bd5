//! Unary calls of gRPC.

use std::fs;
use std::future::pending;

use crate::common::{MS, Server, echo};
use curtail_load::{Errors, Plan, run, run_observed};

const PROTO: &str = r#"
syntax = "proto3";
package test;
message Words { string text = 1; int64 number = 2; }
service Echo {
  rpc Say(Words) returns (Words);
  rpc Watch(Words) returns (stream Words);
}
"#;

async fn server() -> Server {
    Server::start(|stream| crate::h2_server::serve(stream, 100)).await
}

fn plan(server: &Server, requests: u64, messages: &[&str]) -> Plan {
    let mut plan = server.plan(500.0, requests);
    plan.target = format!("grpc://{}/test.Echo/Say", server.address).parse().unwrap();
    plan.queries = messages.iter().map(|message| (*message).to_owned()).collect();
    (plan.connections, plan.timeout_ns) = (1, 2_000 * MS);
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_answered_and_bad_statuses_counted() {
    let server = server().await;
    // Messages of field 1 as text: `ok`, `no`, `late` and `mute`.
    let messages = ["CgJvaw==", "CgJubw==", "CgRsYXRl", "CgRtdXRl"]
        .map(|code| format!(r#"{{"base64": "{code}"}}"#));
    let messages = messages.each_ref().map(String::as_str);
    let report = run(&plan(&server, 40, &messages), pending(), |_| {}).await.unwrap();
    let errors = Errors { refused: 20, malformed: 10, ..Errors::default() };
    assert_eq!(report.errors, errors, "{report:?}");
    assert_eq!((report.histogram.len(), server.accepted()), (10, 1));
    let first = report.failures.unwrap().first;
    assert_eq!(first, "the server said: 9 FAILED_PRECONDITION: not now");
    let mut mute = plan(&server, 2, &messages[3..]);
    mute.queries.truncate(1);
    let first = run(&mute, pending(), |_| {}).await.unwrap().failures.unwrap().first;
    assert!(first.contains("no grpc-status"), "{first}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_json_where_there_is_a_schema() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("echo.proto");
    fs::write(&source, PROTO).unwrap();
    let described = protox::compile([&source], [directory.path()]).unwrap();
    let set = directory.path().join("echo.pb");
    fs::write(&set, prost_reflect::prost::Message::encode_to_vec(&described)).unwrap();
    for file in [&source, &set] {
        let mut plan = plan(&server, 20, &[r#"{"text": "hello", "number": 5}"#, "{}"]);
        plan.protocol.schema = Some(file.clone());
        let mut sizes = Vec::new();
        let on_answer = |answer: &curtail_load::Answer| {
            assert!(answer.good);
            sizes.push(answer.body_bytes);
        };
        let report = run_observed(&plan, pending(), |_| {}, on_answer).await.unwrap();
        assert_eq!(report.errors.total(), 0, "{report:?}");
        sizes.sort_unstable();
        // The prefix, and 7 + 2 bytes of fields.
        assert_eq!(sizes, [[5; 10], [14; 10]].concat());
        for (target, message, why) in [
            ("test.Echo/Say", r#"{"word": 1}"#, "is no test.Words as JSON"),
            ("test.Echo/Shout", "{}", "has no method Shout; there is Say, Watch"),
            ("test.Other/Say", "{}", "has no service test.Other; there is test.Echo"),
            ("test.Echo/Watch", "{}", "Watch is a stream"),
        ] {
            plan.target = format!("grpc://h:1/{target}").parse().unwrap();
            plan.queries = vec![message.to_owned()];
            let error = plan.check().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
    fs::write(&set, "no descriptors").unwrap();
    let mut plan = plan(&server, 20, &["{}"]);
    for (file, why) in [(set, "descriptor_set_out"), (directory.path().join("x"), "check the path")]
    {
        plan.protocol.schema = Some(file);
        let error = plan.check().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_message_or_no_server_of_grpc_is_told() {
    let server = server().await;
    let error = plan(&server, 1, &[r#"{"text": "a"}"#]).check().unwrap_err().to_string();
    assert!(error.contains("--proto FILE"), "{error}");
    // A page of HTTP/2.
    let mut page = plan(&server, 3, &[]);
    page.target = format!("grpc://{}/some.Page/Here", server.address).parse().unwrap();
    let report = run(&page, pending(), |_| {}).await.unwrap();
    assert_eq!(report.errors.malformed, 3, "{report:?}");
    // One of HTTP/1.
    let old = Server::start(echo).await;
    let report = run(&plan(&old, 3, &[]), pending(), |_| {}).await.unwrap();
    let first = report.failures.unwrap().first;
    assert!(first.contains("HTTP/2, which gRPC needs"), "{first}");
}
