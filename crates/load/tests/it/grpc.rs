//! Unary calls of gRPC. Their statuses are tested without sockets (`session/tests`).

use std::fs;

use crate::common::{Server, observe};
use curtail_load::Plan;

const PROTO: &str = r#"
syntax = "proto3";
package test;
message Words { string text = 1; int64 number = 2; }
service Echo {
  rpc Say(Words) returns (Words);
  rpc Watch(Words) returns (stream Words);
}
"#;

fn plan(server: &Server, requests: u64, messages: &[&str]) -> Plan {
    let mut plan = server.plan(500.0, requests);
    plan.target = format!("grpc://{}/test.Echo/Say", server.address).parse().unwrap();
    plan.queries = messages.iter().map(|message| (*message).to_owned()).collect();
    plan.connections = 1;
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_json_where_there_is_a_schema() {
    let server = Server::start(crate::h2_server::serve).await;
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("echo.proto");
    fs::write(&source, PROTO).unwrap();
    let described = protox::compile([&source], [directory.path()]).unwrap();
    let set = directory.path().join("echo.pb");
    fs::write(&set, prost_reflect::prost::Message::encode_to_vec(&described)).unwrap();
    // Field 1 is `ok`.
    let raw = r#"{"base64": "CgJvaw=="}"#;
    let json = r#"{"text": "hello", "number": 5}"#;
    // With their prefix.
    for (file, message, bytes) in [(None, raw, 9), (Some(&source), json, 14), (Some(&set), "{}", 5)]
    {
        let mut plan = plan(&server, 20, &[message]);
        plan.protocol.schema = file.cloned();
        let mut sizes = Vec::new();
        let report = observe(&plan, |answer| sizes.push((answer.good, answer.body_bytes))).await;
        assert_eq!(report.errors.total(), 0);
        assert_eq!(sizes, [(true, bytes); 20], "{report:?}");
    }
    let bad = directory.path().join("bad");
    fs::write(&bad, "no descriptors").unwrap();
    let missing = directory.path().join("missing");
    for (file, target, message, why) in [
        (None, "test.Echo/Say", json, "--proto FILE"),
        (Some(&set), "test.Echo/Say", r#"{"word": 1}"#, "is no test.Words as JSON"),
        (Some(&source), "test.Echo/Shout", "{}", "has no method Shout; there is Say, Watch"),
        (Some(&set), "test.Other/Say", "{}", "has no service test.Other; there is test.Echo"),
        (Some(&source), "test.Echo/Watch", "{}", "Watch is a stream"),
        (Some(&bad), "test.Echo/Say", "{}", "descriptor_set_out"),
        (Some(&missing), "test.Echo/Say", "{}", "check the path"),
    ] {
        let mut plan = plan(&server, 1, &[message]);
        plan.target = format!("grpc://h:1/{target}").parse().unwrap();
        plan.protocol.schema = file.cloned();
        let error = plan.check().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
