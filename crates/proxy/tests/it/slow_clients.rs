//! Tests with clients that are slow to send or to read. The timeouts are short, because they elapse
//! in real time. The tests make no assertions about durations.

use crate::harness::{Backend, Client, HELLO, Proxy, Step, eventually, say};

const POST: &str = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n";

#[tokio::test]
async fn late_heads_and_bodies_get_408_and_idle_connections_close_silently() {
    let backend = Backend::responding(HELLO).await;
    let chunked = POST.replace("content-length: 10", "transfer-encoding: chunked");
    for (timeout, sent, status) in [
        ("header_timeout", "GET / HTTP/1.1\r\nhost: x\r\n", "408"),
        ("body_timeout", &format!("{POST}half"), "408"),
        ("body_timeout", &format!("{chunked}5\r\nhal"), "408"),
        ("idle_timeout", "", ""),
    ] {
        let proxy = Proxy::listening(&format!("{timeout} = \"60ms\""), "", &[&backend]).await;
        let mut client = proxy.client().await;
        client.send(sent).await;
        let (text, _) = client.rest().await;
        assert_eq!(text.split(' ').nth(1).unwrap_or_default(), status, "{timeout}: {text}");
        proxy.disconnected().await;
    }
    assert!(backend.seen().is_empty());
}

#[tokio::test]
async fn a_slow_body_holds_no_slot() {
    let backend = Backend::responding(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut slow = proxy.client().await;
    slow.send(format!("{POST}half")).await;
    for _ in 0..3 {
        assert_eq!(proxy.get("/").await.text(), "hello");
    }
    proxy.load(0, 0, 0).await;
    slow.send("-whole").await;
    assert_eq!(slow.response().await.text(), "hello");
    assert_eq!(backend.seen().last().expect("it came").body, b"half-whole");
}

#[tokio::test]
async fn a_client_that_does_not_read_a_long_response_is_cut_off_and_frees_the_slot() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";
    let backend = Backend::new(move |_| vec![say(head), Step::Flood(1_000_000_000)]).await;
    let listen = "write_timeout = \"100ms\"";
    let proxy = Proxy::listening(listen, "cancel = \"reset\"", &[&backend]).await;
    let mut client = Client::narrow(proxy.http).await;
    client.ask("/").await;
    backend.has_seen(1).await;
    proxy.idle().await;
    eventually("the replica's connection is closed", async || backend.closed() == 1).await;
    let response = client.response().await;
    assert!(!response.whole && response.body.len() < 100_000_000);
    proxy.up(1).await;
}

/// The response is far larger than the buffers of the system.
#[tokio::test]
async fn a_client_that_does_not_read_holds_no_slot_if_the_buffer_has_room() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 30000000\r\n\r\n";
    let backend = Backend::new(move |_| vec![say(head), Step::Flood(30_000_000)]).await;
    let proxy = Proxy::serving("response_buffer = \"30MB\"", &[&backend]).await;
    let mut client = Client::narrow(proxy.http).await;
    client.ask("/").await;
    backend.has_seen(1).await;
    eventually("the end of the copy", async || {
        proxy.status().await["services"][0]["shards"][0]["servers"][0]["busy"] == 0
    })
    .await;
    assert_eq!(proxy.count("curtail_responses_total", &[]).await, 0, "the client has not read it");
    let response = client.response().await;
    assert!(response.whole && response.body.len() == 30_000_000);
}

#[tokio::test]
async fn a_replica_that_cannot_stop_finishes_a_response_that_no_client_reads() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 50000000\r\n\r\n";
    let backend = Backend::new(move |_| vec![say(head), Step::Flood(50_000_000)]).await;
    let proxy = Proxy::listening("write_timeout = \"100ms\"", "", &[&backend]).await;
    let mut client = Client::narrow(proxy.http).await;
    client.ask("/").await;
    backend.has_seen(1).await;
    proxy.idle().await;
    assert_eq!((backend.flooded(), backend.closed()), (50_000_000, 0));
    assert!(!client.response().await.whole);
    // The connection to the replica can still be used.
    let response = proxy.get("/").await;
    assert!(response.whole && backend.connections() == 1);
}
