//! How requests are counted: each once, when its response has ended, by how it ended.

use std::time::Instant;

use crate::harness::{Backend, HELLO, Proxy, Step, eventually, say};

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
const OOPS: &str = "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n";

/// Waits until no client is connected, then checks that these requests ended and no others, and that
/// the duration of each was recorded.
async fn counted(proxy: &Proxy, expected: &[(&str, u32)]) {
    eventually("the clients to be gone", async || {
        proxy.metric("curtail_connections", &[]).await < 0.5
    })
    .await;
    let read = proxy.metrics().await;
    let mut all = 0;
    for outcome in ["answered", "failed", "shed", "cut", "abandoned"] {
        let times =
            expected.iter().find(|(name, _)| *name == outcome).map_or(0, |(_, times)| *times);
        let ended = read.sum("curtail_requests_total", &[("outcome", outcome)]);
        assert_eq!(ended.to_bits(), f64::from(times).to_bits(), "{outcome}, not {expected:?}");
        all += times;
    }
    for total in ["curtail_requests_total", "curtail_request_duration_seconds_count"] {
        assert_eq!(read.sum(total, &[]).to_bits(), f64::from(all).to_bits(), "{total}");
    }
}

#[tokio::test]
async fn a_long_response_counts_when_it_has_ended_with_all_the_time_that_it_took() {
    let backend = Backend::new(|_| vec![say(CHUNKED), Step::Gate, say("0\r\n\r\n")]).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut client = proxy.client().await;
    client.ask("/").await;
    client.hears("hello").await;
    let heard = Instant::now();
    for total in ["curtail_requests_total", "curtail_request_duration_seconds_count"] {
        assert_eq!(proxy.metric(total, &[]).await.to_bits(), 0, "{total} while the response runs");
    }
    let ran = heard.elapsed();
    backend.open(1);
    assert!(client.response().await.whole);
    drop(client);
    counted(&proxy, &[("answered", 1)]).await;
    let took = proxy.metric("curtail_request_duration_seconds_sum", &[]).await;
    assert!(took >= ran.as_secs_f64(), "{took} s, of which the body alone took {ran:?}");
    let responses = proxy.metric("curtail_responses_total", &[("code", "2xx")]).await;
    assert_eq!(responses.to_bits(), 1_f64.to_bits());
}

#[tokio::test]
async fn responses_that_break_off_are_cut() {
    for (lines, steps) in [
        ("", vec![say(CHUNKED), Step::Close]),
        ("", vec![say(CHUNKED), say("nonsense\r\n")]),
        ("", vec![say(CHUNKED.replace("200 OK", "500 Oops")), Step::Close]),
        ("timeout = \"100ms\"\ncancel = \"reset\"", vec![say(CHUNKED), Step::Hang]),
    ] {
        let script = steps.clone();
        let backend = Backend::new(move |_| script.clone()).await;
        let proxy = Proxy::serving(lines, &[&backend]).await;
        for version in ["1.0", "1.1"] {
            let mut client = proxy.client().await;
            client.send(format!("GET / HTTP/{version}\r\nhost: x\r\n\r\n")).await;
            let _ = client.rest().await;
        }
        counted(&proxy, &[("cut", 2)]).await;
        // None of them was a response.
        assert_eq!(proxy.metric("curtail_responses_total", &[]).await.to_bits(), 0, "{steps:?}");
    }
}

#[tokio::test]
async fn clients_that_leave_before_or_inside_of_their_response_have_abandoned_it() {
    let backend = Backend::new(|seen| match seen.line() {
        "GET /silent HTTP/1.1" => vec![Step::Hang],
        _ => vec![say(CHUNKED), Step::Hang],
    })
    .await;
    let proxy = Proxy::serving("cancel = \"reset\"\nslots = 9", &[&backend]).await;
    for reset in [false, true] {
        let (mut early, mut late) = (proxy.client().await, proxy.client().await);
        early.ask("/silent").await;
        late.ask("/").await;
        late.hears("hello").await;
        proxy.load(1, 0, 2).await;
        for client in [early, late] {
            if reset {
                client.reset();
            } else {
                drop(client);
            }
        }
        proxy.idle().await;
    }
    counted(&proxy, &[("abandoned", 4)]).await;
}

#[tokio::test]
async fn what_the_client_was_told_is_what_is_counted() {
    let backend = Backend::new(|seen| match seen.line() {
        "GET /oops HTTP/1.1" => vec![say(OOPS)],
        "GET /reset HTTP/1.1" => vec![Step::Close],
        "GET /gate HTTP/1.1" => vec![Step::Gate, say(HELLO)],
        _ => vec![say(HELLO)],
    })
    .await;
    let proxy = Proxy::serving("queue = 0\nmax_request_body = \"1B\"", &[&backend]).await;
    let mut client = proxy.client().await;
    for (target, status) in [("/", 200), ("/oops", 500), ("/reset", 502)] {
        assert_eq!(client.get(target).await.status, status, "{target}");
    }
    proxy.idle().await;
    client.ask("/gate").await;
    proxy.load(1, 0, 1).await;
    assert_eq!(proxy.get("/").await.status, 503);
    backend.open(1);
    assert_eq!(client.response().await.status, 200);
    // It never reached the service.
    assert_eq!(client.post("/", "xx").await.status, 413);
    drop(client);
    counted(&proxy, &[("answered", 2), ("failed", 2), ("shed", 1)]).await;
    assert_eq!(proxy.metric("curtail_responses_total", &[]).await.to_bits(), 5_f64.to_bits());
}
