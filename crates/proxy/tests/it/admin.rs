//! The operator's port.

use std::collections::BTreeSet;

use crate::harness::{Backend, Client, HELLO, Proxy, say};
use serde_json::{Value, json};

/// Counts are whole: compared as such.
#[track_caller]
fn same(counted: f64, expected: u32) {
    assert!((counted - f64::from(expected)).abs() < 1e-9, "{counted} instead of {expected}");
}

#[tokio::test]
async fn the_status_is_as_documented() {
    let (one, two) = (Backend::gated(HELLO).await, Backend::gated(HELLO).await);
    let lines = "policy = \"bounded:2\"\nname = \"search\"";
    let proxy = Proxy::serving(lines, &[&one, &two]).await;
    let mut clients = Vec::new();
    for _ in 0..5 {
        let mut client = proxy.client().await;
        client.ask("/").await;
        clients.push(client);
    }
    proxy.load(5, 1, 4).await;
    let response = proxy.asked("/status").await;
    assert_eq!(response.header("content-type"), Some("application/json"));
    let server = |backend: &Backend| json!({ "address": backend.address.to_string(), "up": true, "slots": 1, "busy": 2 });
    let shard = json!({ "name": "0", "queue": 1, "servers": [server(&one), server(&two)] });
    let service = json!({ "name": "search", "policy": "bounded:2", "live": 5, "shards": [shard] });
    assert_eq!(proxy.status().await, json!({ "draining": false, "services": [service] }));
}

/// The names of the fields of a status, each with those around it.
fn fields(status: &Value, around: &str, into: &mut BTreeSet<String>) {
    match status {
        Value::Object(fields_of) => {
            for (name, value) in fields_of {
                let name = format!("{around}{name}");
                fields(value, &format!("{name}."), into);
                into.insert(name);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, around, into)),
        _ => {}
    }
}

#[tokio::test]
async fn the_manual_explains_every_field_of_the_status() {
    let backend = Backend::says(HELLO).await;
    // It has fields that other policies do not.
    let proxy = Proxy::serving("policy = \"rescue\"", &[&backend]).await;
    let mut there = BTreeSet::new();
    let status = proxy.status().await;
    assert_eq!(status["services"][0]["learned"]["version"], "no-cancel", "{status}");
    fields(&status, "", &mut there);
    let manual = include_str!("../../../../docs/proxy.md");
    let (_, table) = manual.split_once("| field of `/status` |").expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| `"));
    let explained = rows.filter_map(|row| row.split('`').nth(1)).map(String::from);
    assert_eq!(explained.collect::<BTreeSet<_>>(), there);
}

#[tokio::test]
async fn what_was_done_is_what_is_counted() {
    // One responds on demand, so that the other wins.
    let (slow, quick) = (Backend::gated(HELLO).await, Backend::says(HELLO).await);
    let proxy = Proxy::serving("policy = \"laedge\"", &[&slow, &quick]).await;
    let none = proxy.metrics().await;
    same(none.sum("curtail_requests_total", &[]), 0);
    same(none.sum("curtail_copies_ended_total", &[]), 0);
    let mut client = proxy.client().await;
    for at in 1..=20 {
        assert_eq!(client.get("/").await.status, 200);
        slow.has_seen(at).await;
        slow.open(1);
        proxy.idle().await;
    }
    let read = proxy.metrics().await;
    let quick_address = quick.address.to_string();
    same(read.sum("curtail_requests_total", &[("outcome", "answered")]), 20);
    same(read.sum("curtail_requests_total", &[]), 20);
    same(read.sum("curtail_responses_total", &[("code", "2xx")]), 20);
    same(read.sum("curtail_request_duration_seconds_count", &[("service", "s")]), 20);
    same(read.sum("curtail_queue_duration_seconds_count", &[("shard", "0")]), 20);
    same(read.sum("curtail_copies_started_total", &[("reason", "arrival")]), 20);
    same(read.sum("curtail_copies_started_total", &[]), 40);
    same(read.sum("curtail_copies_ended_total", &[("outcome", "good")]), 40);
    same(read.sum("curtail_copies_ended_total", &[]), 40);
    same(read.sum("curtail_copies_won_total", &[]), 20);
    same(read.sum("curtail_copies_won_total", &[("server", &quick_address)]), 20);
    // Ties are broken at random: both had their first copies.
    for role in ["primary", "duplicate"] {
        assert!(read.sum("curtail_copies_won_total", &[("role", role)]) > 0.5, "{role}");
    }
    assert!(read.sum("curtail_wasted_seconds_total", &[]) > 0.0);
    same(read.sum("curtail_wasted_seconds_total", &[("server", &quick_address)]) * 1e9, 0);
    same(read.sum("curtail_connections", &[]), 1);
    same(read.sum("curtail_connections_accepted_total", &[]), 1);
    same(read.sum("curtail_server_up", &[]), 2);
    same(read.sum("curtail_server_slots", &[]), 2);
    same(read.sum("curtail_server_busy", &[]), 0);
    same(read.sum("curtail_queue_length", &[]), 0);
}

#[tokio::test]
async fn a_service_that_rescues_counts_that_too() {
    let backend = Backend::says(HELLO).await;
    let proxy = Proxy::serving("policy = \"rescue\"", &[&backend]).await;
    assert_eq!(proxy.get("/").await.status, 200);
    let read = proxy.metrics().await;
    same(read.sum("curtail_rescue_state", &[("service", "s"), ("state", "exploring")]), 1);
    same(read.sum("curtail_rescue_state", &[]), 1);
    for family in ["rescues_total", "explorations_total", "rescue_fallbacks_total"] {
        same(read.sum(&format!("curtail_{family}"), &[("service", "s")]), 0);
    }
    same(read.sum("curtail_rescue_suspects", &[("service", "s")]), 0);
    // One query tells nothing.
    let text = proxy.asked("/metrics").await.text();
    assert!(text.contains("curtail_rescues_total{"), "{text}");
    assert!(!text.contains("curtail_rescue_threshold_seconds{"), "{text}");
}

#[tokio::test]
async fn gauges_are_of_the_moment_of_reading() {
    let backend = Backend::gated(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = proxy.client().await;
        client.ask("/").await;
        clients.push(client);
    }
    proxy.load(3, 2, 1).await;
    let read = proxy.metrics().await;
    same(read.sum("curtail_queue_length", &[("service", "s"), ("shard", "0")]), 2);
    same(read.sum("curtail_server_busy", &[("server", &backend.address.to_string())]), 1);
    same(read.sum("curtail_connections", &[]), 3);
}

#[tokio::test]
async fn refusals_and_failures_are_counted_by_their_reason() {
    let backend = Backend::new(|seen| match seen.line() {
        "GET /oops HTTP/1.1" => vec![say("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n")],
        "GET /bad HTTP/1.1" => vec![say("noise\r\n\r\n")],
        _ => vec![say("HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")],
    })
    .await;
    let proxy = Proxy::serving(
        "route = { path_prefix = \"/\" }\nshard_by = { header = \"s\" }",
        &[&backend],
    )
    .await;
    for (text, status, times) in [
        ("GET /\r\n\r\n", 400, 1),
        ("GET / HTTP/1.1\r\nhost: x\r\n\r\n", 400, 2),
        ("GET / HTTP/1.1\r\nhost: x\r\ns: 1\r\n\r\n", 404, 3),
        ("GET / HTTP/1.1\r\nhost: x\r\ns: 0\r\n\r\n", 404, 4),
        ("GET /oops HTTP/1.1\r\nhost: x\r\ns: 0\r\n\r\n", 500, 2),
        ("GET /bad HTTP/1.1\r\nhost: x\r\ns: 0\r\n\r\n", 502, 1),
    ] {
        for _ in 0..times {
            let mut client = proxy.client().await;
            client.send(text).await;
            assert_eq!(client.response().await.status, status, "{text:?}");
        }
    }
    let read = proxy.metrics().await;
    for (reason, times) in [("malformed", 1), ("missing_key", 2), ("unknown_shard", 3)] {
        same(read.sum("curtail_rejected_total", &[("reason", reason)]), times);
    }
    same(read.sum("curtail_requests_total", &[("outcome", "answered")]), 4);
    same(read.sum("curtail_requests_total", &[("outcome", "failed")]), 3);
    same(read.sum("curtail_responses_total", &[("code", "4xx")]), 4);
    same(read.sum("curtail_responses_total", &[("code", "5xx")]), 3);
    same(read.sum("curtail_copies_ended_total", &[("outcome", "bad")]), 2);
    same(read.sum("curtail_copies_ended_total", &[("outcome", "malformed")]), 1);
    same(read.sum("curtail_connections_accepted_total", &[]), 13);
}

#[tokio::test]
async fn debug_headers_say_where_a_response_came_from() {
    let backend = Backend::says(HELLO).await;
    let proxy = Proxy::serving("debug_headers = true", &[&backend]).await;
    let response = proxy.get("/").await;
    assert_eq!(response.header("x-curtail-server"), Some(&*backend.address.to_string()));
    assert_eq!(response.header("x-curtail-copies"), Some("1"));
    let queued = response.header("x-curtail-queued-us").map(str::parse::<u64>);
    assert!(matches!(queued, Some(Ok(_))));
    let proxy = Proxy::serving("", &[&backend]).await;
    assert!(!proxy.get("/").await.head.contains("x-curtail"));
}

#[tokio::test]
async fn what_the_port_does_not_serve_it_says_so() {
    let backend = Backend::says(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut client = Client::connect(proxy.admin).await;
    let health = client.get("/health").await;
    assert_eq!((health.status, health.text()), (200, "ok\n".into()));
    assert_eq!(client.get("/health?x").await.status, 200);
    assert_eq!(client.get("/").await.status, 404);
    assert_eq!(client.get("/metrics/x").await.status, 404);
    let refused = client.post("/status", "body").await;
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")));
    client.send("HEAD /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let head = client.response_to_head().await;
    assert!(head.status == 200 && head.header("content-length").is_some());
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(head.header("content-type"), Some(kind));
    // Bodies are of no use here, so none is held in memory.
    assert_eq!(client.post("/status", &"x".repeat(100_000)).await.status, 413);
    let _ = client.rest().await;
    for (bytes, status) in [
        ("noise\r\n\r\n".to_string(), 400),
        ("GET / HTTP/1.1\r\n\r\n".into(), 400),
        (format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(20_000)), 431),
    ] {
        let mut client = Client::connect(proxy.admin).await;
        client.send(bytes).await;
        let response = client.response().await;
        assert_eq!((response.status, response.closes()), (status, true));
        client.is_closed().await;
    }
    assert!(backend.seen().is_empty());
    let read = proxy.metrics().await;
    same(read.sum("curtail_rejected_total", &[]), 0);
    assert!(read.families().all(|family| family.starts_with("curtail_")));
}
