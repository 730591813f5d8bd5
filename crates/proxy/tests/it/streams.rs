//! Tests long responses that are relayed piece by piece. They may be complete, break off, stall, or
//! arrive faster than the client reads.

use crate::harness::{self, Backend, Client, End, Proxy, Step, eventually, say};

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
const LONG: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";
const ENDLESS: &str = "HTTP/1.1 200 OK\r\n\r\n";

#[tokio::test]
async fn long_responses_of_every_framing_come_whole() {
    for (steps, length, body) in [
        (vec![say(LONG), Step::Flood(1_000_000)], Some("1000000"), 1_000_000),
        (vec![say(CHUNKED), say("3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nsum: 5\r\n\r\n")], None, 5),
        (vec![say(CHUNKED), say("0\r\n\r\n")], None, 0),
        (vec![say(ENDLESS), Step::Flood(1_000_000), Step::Close], None, 1_000_000),
        (vec![say("HTTP/1.0 200 OK\r\n\r\nold"), Step::Close], None, 3),
    ] {
        let backend = Backend::new(move |_| steps.clone()).await;
        let proxy = Proxy::serving("", &[&backend]).await;
        let mut client = proxy.client().await;
        for _ in 0..2 {
            let response = client.get("/").await;
            assert!(response.whole && response.status == 200);
            assert_eq!((response.body.len(), response.header("content-length")), (body, length));
            assert_eq!(response.header("sum"), None, "trailers are dropped");
        }
        proxy.idle().await;
    }
}

/// Returns the response to a GET through a proxy in front of this replica, and how the connection
/// ended.
async fn cut(lines: &str, steps: Vec<Step>, version: &str) -> (harness::Response, End) {
    let backend = Backend::new(move |_| steps.clone()).await;
    let proxy = Proxy::serving(lines, &[&backend]).await;
    let mut client = proxy.client().await;
    client.send(format!("GET / HTTP/{version}\r\nhost: x\r\n\r\n")).await;
    let response = client.response().await;
    let (rest, end) = client.rest().await;
    assert_eq!(rest, "");
    proxy.idle().await;
    assert_eq!(proxy.count("curtail_requests_total", &[("outcome", "cut")]).await, 1);
    assert_eq!(proxy.count("curtail_responses_total", &[]).await, 0, "it was none");
    (response, end)
}

#[tokio::test]
async fn a_response_that_breaks_off_never_ends_cleanly() {
    for steps in [
        vec![say(LONG), Step::Flood(10_000), Step::Close],
        vec![say(CHUNKED), say("5\r\nhello\r\n"), Step::Close],
        vec![say(CHUNKED), say("5\r\nhel"), Step::Close],
        vec![say(CHUNKED), say("5\r\nhello\r\n0\r\n"), Step::Close],
        vec![say(CHUNKED), say("5\r\nhello\r\nx\r\n")],
        vec![say(CHUNKED), say("5\r\nhelloo\r\n")],
        vec![say(CHUNKED), say("fffffffffffffffff\r\n")],
    ] {
        let (response, _) = cut("", steps.clone(), "1.1").await;
        assert!(response.status == 200 && !response.whole, "{steps:?}: {response:?}");
    }
    // In HTTP/1.0, only a reset shows that a response is incomplete.
    let (response, end) =
        cut("", vec![say(CHUNKED), say("5\r\nhello\r\n"), Step::Close], "1.0").await;
    assert_eq!((response.whole, end), (false, End::Reset));
}

#[tokio::test]
async fn the_time_of_a_request_is_for_its_whole_response() {
    let lines = "timeout = \"150ms\"\ncancel = \"reset\"";
    for (steps, version) in [
        (vec![say(LONG), Step::Flood(10_000), Step::Hang], "1.1"),
        (vec![say(CHUNKED), say("5\r\nhello\r\n"), Step::Hang], "1.1"),
        (vec![say(ENDLESS), say("hello"), Step::Hang], "1.0"),
    ] {
        let (response, end) = cut(lines, steps.clone(), version).await;
        assert!(response.status == 200 && !response.whole, "{steps:?}: {response:?}");
        assert!(version == "1.1" || end == End::Reset);
    }
    // A pause as long as the read timeout also cuts the response off.
    let steps = vec![say(CHUNKED), say("5\r\nhello\r\n"), Step::Hang];
    assert!(!cut("read_timeout = \"100ms\"", steps, "1.1").await.0.whole);
    // Even a client that keeps reading is cut off.
    let backend = Backend::new(|_| vec![say(ENDLESS), Step::Flood(1 << 40)]).await;
    let proxy = Proxy::serving(lines, &[&backend]).await;
    assert!(!proxy.get("/").await.whole);
    proxy.idle().await;
    eventually("the replica sees it", async || backend.closed() == 1).await;
}

#[tokio::test]
async fn a_replica_is_not_read_far_ahead_of_its_client() {
    for head in [ENDLESS, "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n"] {
        let backend = Backend::new(move |_| vec![say(head), Step::Flood(1_000_000_000)]).await;
        let proxy = Proxy::serving("timeout = \"60s\"\ncancel = \"reset\"", &[&backend]).await;
        let mut client = Client::narrow(proxy.http).await;
        client.ask("/").await;
        client.receives("xxx").await;
        // Waits until nothing more is sent.
        let mut before = 0;
        eventually("the replica is stopped by the client", async || {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await; // tidy: real time
            let now = backend.flooded();
            now > 0 && std::mem::replace(&mut before, now) == now
        })
        .await;
        // The buffers of the operating system are outside our control. The proxy's own buffers are
        // a tenth of this size.
        assert!(before < 40_000_000, "{before} bytes are in flight");
        drop(client);
        proxy.idle().await;
    }
}
