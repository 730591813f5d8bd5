//! The admin server.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::harness::{
    Backend, Client, End, HELLO, Proxy, Step, config, dead, say, service, shard, with_shards,
};
use serde_json::{Value, json};

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
    // Gauges are up to date when they are read.
    let read = proxy.metrics().await;
    assert_eq!(read.count("curtail_queue_length", &[("service", "search"), ("shard", "0")]), 1);
    assert_eq!(read.count("curtail_server_busy", &[("server", &one.address.to_string())]), 2);
    assert_eq!(read.count("curtail_connections", &[]), 5);
}

/// Collects the names of the fields of a status, each prefixed with the names of the fields that
/// contain it.
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

/// Returns the status fields that are explained on a page.
fn explained(page: &str) -> BTreeSet<String> {
    let (_, table) = page.split_once("| field of `/status` |").expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| `"));
    rows.filter_map(|row| row.split('`').nth(1)).map(String::from).collect()
}

#[tokio::test]
async fn the_manual_explains_every_field_of_the_status() {
    let backend = Backend::responding(HELLO).await;
    // This status has the fields of the policy rescue and of a sidecar.
    let lines = "policy = \"rescue\"\nslots = 1\nflow = \"ingress\"";
    let sidecar = service(lines, &[&backend]);
    let proxy = Proxy::start(&config("", &format!("[flow]\nservice = \"a\"\n{sidecar}"))).await;
    let mut there = BTreeSet::new();
    let status = proxy.status().await;
    assert_eq!(status["services"][0]["learned"]["version"], "no-cancel", "{status}");
    assert_eq!(proxy.count("curtail_rescue_state", &[("state", "exploring")]).await, 1);
    fields(&status, "", &mut there);
    let status = Proxy::serving("policy = \"delayed:p95\"", &[&backend]).await.status().await;
    assert_eq!(status["services"][0]["learned"]["delay_ns"], Value::Null, "{status}");
    fields(&status, "", &mut there);
    let mut pages = explained(include_str!("../../../../docs/proxy.md"));
    pages.extend(explained(include_str!("../../../../docs/sidecar.md")));
    assert_eq!(pages, there);
}

#[tokio::test]
async fn metrics_count_what_was_done() {
    // The slow replica responds only on demand, so that the other replica wins.
    let (slow, quick) = (Backend::gated(HELLO).await, Backend::responding(HELLO).await);
    let proxy = Proxy::serving("policy = \"laedge\"", &[&slow, &quick]).await;
    let none = proxy.metrics().await;
    assert_eq!(none.count("curtail_requests_total", &[]), 0);
    assert_eq!(none.count("curtail_copies_ended_total", &[]), 0);
    let mut client = proxy.client().await;
    for at in 1..=20 {
        assert_eq!(client.get("/").await.status, 200);
        slow.has_seen(at).await;
        slow.open(1);
        proxy.idle().await;
    }
    let read = proxy.metrics().await;
    let quick_address = quick.address.to_string();
    assert_eq!(read.count("curtail_requests_total", &[("outcome", "answered")]), 20);
    assert_eq!(read.count("curtail_requests_total", &[]), 20);
    assert_eq!(read.count("curtail_responses_total", &[("code", "2xx")]), 20);
    assert_eq!(read.count("curtail_request_duration_seconds_count", &[("service", "s")]), 20);
    assert_eq!(read.count("curtail_queue_duration_seconds_count", &[("shard", "0")]), 20);
    assert_eq!(read.count("curtail_copies_started_total", &[("reason", "arrival")]), 20);
    assert_eq!(read.count("curtail_copies_started_total", &[]), 40);
    assert_eq!(read.count("curtail_copies_ended_total", &[("outcome", "good")]), 40);
    assert_eq!(read.count("curtail_copies_ended_total", &[]), 40);
    assert_eq!(read.count("curtail_copies_won_total", &[]), 20);
    assert_eq!(read.count("curtail_copies_won_total", &[("server", &quick_address)]), 20);
    // Ties are broken at random, so each replica had some of the first copies.
    for role in ["primary", "duplicate"] {
        assert!(read.sum("curtail_copies_won_total", &[("role", role)]) > 0.5, "{role}");
    }
    assert!(read.sum("curtail_wasted_seconds_total", &[]) > 0.0);
    assert!(read.sum("curtail_wasted_seconds_total", &[("server", &quick_address)]) < 1e-9);
    assert_eq!(read.count("curtail_connections", &[]), 1);
    assert_eq!(read.count("curtail_connections_accepted_total", &[]), 1);
    assert_eq!(read.count("curtail_server_up", &[]), 2);
    assert_eq!(read.count("curtail_server_slots", &[]), 2);
    assert_eq!(read.count("curtail_server_busy", &[]), 0);
    assert_eq!(read.count("curtail_queue_length", &[]), 0);
}

#[tokio::test]
async fn a_long_response_counts_when_it_has_ended_with_its_whole_time() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let backend = Backend::new(move |_| vec![say(head), Step::Gate, say("0\r\n\r\n")]).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut client = proxy.client().await;
    client.ask("/").await;
    client.receives("hello").await;
    let began = Instant::now();
    for total in ["curtail_requests_total", "curtail_request_duration_seconds_count"] {
        assert_eq!(proxy.count(total, &[]).await, 0, "{total} during the response");
    }
    let ran = began.elapsed();
    backend.open(1);
    assert!(client.response().await.whole);
    proxy.idle().await;
    let read = proxy.metrics().await;
    for total in ["curtail_requests_total", "curtail_request_duration_seconds_count"] {
        assert_eq!(read.count(total, &[]), 1, "{total}");
    }
    let took = read.sum("curtail_request_duration_seconds_sum", &[]);
    assert!(took >= ran.as_secs_f64(), "{took} s, of which the body alone took {ran:?}");
    assert_eq!(read.count("curtail_responses_total", &[("code", "2xx")]), 1);
}

#[tokio::test]
async fn refusals_and_failures_are_counted_by_their_reason() {
    let backend = Backend::new(|seen| match seen.line() {
        "GET /oops HTTP/1.1" => vec![say("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n")],
        "GET /bad HTTP/1.1" => vec![say("noise\r\n\r\n")],
        _ => vec![say("HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")],
    })
    .await;
    let proxy = Proxy::serving("", &[&backend]).await;
    for (text, status, times) in [
        ("GET /\r\n\r\n", 400, 1),
        ("GET / HTTP/1.1\r\nhost: x\r\n\r\n", 404, 4),
        ("GET /oops HTTP/1.1\r\nhost: x\r\n\r\n", 500, 2),
        ("GET /bad HTTP/1.1\r\nhost: x\r\n\r\n", 502, 1),
    ] {
        for _ in 0..times {
            let mut client = proxy.client().await;
            client.send(text).await;
            assert_eq!(client.response().await.status, status, "{text:?}");
        }
    }
    let read = proxy.metrics().await;
    assert_eq!(read.count("curtail_rejected_total", &[("reason", "malformed")]), 1);
    assert_eq!(read.count("curtail_requests_total", &[("outcome", "answered")]), 4);
    assert_eq!(read.count("curtail_requests_total", &[("outcome", "failed")]), 3);
    assert_eq!(read.count("curtail_responses_total", &[("code", "4xx")]), 4);
    assert_eq!(read.count("curtail_responses_total", &[("code", "5xx")]), 3);
    assert_eq!(read.count("curtail_copies_ended_total", &[("outcome", "bad")]), 2);
    assert_eq!(read.count("curtail_copies_ended_total", &[("outcome", "malformed")]), 1);
    assert_eq!(read.count("curtail_connections_accepted_total", &[]), 8);
}

#[tokio::test]
async fn debug_headers_name_the_server_of_a_response() {
    let backend = Backend::responding(HELLO).await;
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
async fn the_admin_server_rejects_unknown_paths_methods_and_bodies() {
    let backend = Backend::responding(HELLO).await;
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
    // The admin server does not use bodies, so it holds none in memory.
    assert_eq!(client.post("/status", &"x".repeat(100_000)).await.status, 413);
    let _ = client.rest().await;
    assert!(backend.seen().is_empty());
    assert_eq!(proxy.count("curtail_rejected_total", &[]).await, 0);
}

const UNFINISHED: &str = "POST /health HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf";

#[tokio::test]
async fn a_new_admin_client_replaces_the_one_that_waited_longest() {
    let backend = Backend::responding(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut first = Client::connect(proxy.admin).await;
    let mut slow = Vec::new();
    for _ in 0..63 {
        let mut client = Client::connect(proxy.admin).await;
        client.send(UNFINISHED).await;
        slow.push(client);
    }
    // The first client has waited longest, until it gets a response.
    assert_eq!(first.get("/health").await.status, 200);
    let mut others = Vec::new();
    for closed in &mut slow[..3] {
        let mut other = Client::connect(proxy.admin).await;
        assert_eq!(other.get("/health").await.status, 200);
        others.push(other);
        // A client whose time is up gets a 408 instead.
        closed.is_closed().await;
    }
    assert_eq!(first.get("/health").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn admin_clients_have_five_seconds_for_each_step() {
    let backend = Backend::responding(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    for unfinished in [UNFINISHED, "GET /health HTTP/1.1\r\n"] {
        let mut client = Client::connect(proxy.admin).await;
        client.send(unfinished).await;
        let response = client.response().await;
        assert_eq!(response.status, 408, "{unfinished}");
        assert!(response.text().contains(" 5000 ms"), "{}", response.text());
    }
    let begun = tokio::time::Instant::now();
    assert_eq!(Client::connect(proxy.admin).await.rest().await.1, End::Closed);
    assert_eq!(begun.elapsed().as_secs(), 5);
}

#[tokio::test]
async fn ready_means_that_every_shard_has_a_server_that_is_up() {
    let (up, dead) = (Backend::responding(HELLO).await, dead());
    let lines = "name = \"a\"\nhealth = { path = \"/\", interval = \"10ms\" }\nroute = { path_prefix = \"/a\" }";
    let one = service(lines, &[&up, &dead]);
    let lines = lines.replace("\"a\"", "\"b\"").replace("/a", "/b");
    let lines = format!("{lines}\nshard_by = {{ header = \"x-shard\" }}");
    let two = with_shards(&lines, &[shard("0", &[&up]), shard("east", &[&dead])]);
    let proxy = Proxy::start(&config("", &format!("{one}{two}"))).await;
    crate::harness::eventually("the shard is not ready", async || {
        let ready = proxy.asked("/ready").await;
        let text = "service \"b\": no server of shard \"east\" is up\n";
        (ready.status, &*ready.text()) == (503, text)
    })
    .await;
    assert_eq!(proxy.asked("/health").await.text(), "ok\n");
    let backend = Backend::gated(HELLO).await;
    let mut proxy = Proxy::serving("", &[&backend]).await;
    let mut client = Client::connect(proxy.admin).await;
    let ready = client.get("/ready").await;
    assert_eq!((ready.status, ready.text()), (200, "ready\n".into()));
    let mut running = proxy.client().await;
    running.ask("/").await;
    backend.has_seen(1).await;
    proxy.drain();
    crate::harness::eventually("the proxy drains", async || {
        let ready = client.get("/ready").await;
        (ready.status, ready.text()) == (503, "draining\n".into())
    })
    .await;
}

#[tokio::test]
async fn the_status_has_no_slots_if_the_file_has_none() {
    let backend = Backend::responding(HELLO).await;
    let text = service("policy = \"two-choices\"", &[&backend]).replace("slots = 1\n", "");
    let status = Proxy::start(&config("", &text)).await.status().await;
    let server = &status["services"][0]["shards"][0]["servers"][0];
    assert!(server["slots"].is_null() && server.get("slots").is_some(), "{status}");
}
