//! Tests draining: requests that were already sent get a response, and no new client is accepted.

use crate::harness::{Backend, Client, HELLO, Proxy, eventually};
use tokio::net::TcpStream;

/// Waits until the proxy refuses connections.
async fn refuses(proxy: &Proxy) {
    eventually("connections are refused", async || TcpStream::connect(proxy.http).await.is_err())
        .await;
}

#[tokio::test]
async fn only_running_and_waiting_requests_get_a_response() {
    let backend = Backend::gated(HELLO).await;
    let mut proxy = Proxy::serving("", &[&backend]).await;
    let (mut runs, mut waits) = (proxy.client().await, proxy.client().await);
    let (mut idle, mut fresh) = (proxy.client().await, proxy.client().await);
    backend.open(1);
    assert_eq!(idle.get("/").await.status, 200);
    runs.send("GET /1 HTTP/1.1\r\nhost: x\r\n\r\nGET /2 HTTP/1.1\r\nhost: x\r\n\r\n").await;
    backend.has_seen(2).await;
    waits.ask("/3").await;
    proxy.load(2, 1, 1).await;
    proxy.drain();
    refuses(&proxy).await;
    // Connections without a running request are closed, whether or not they had a request before.
    idle.is_closed().await;
    fresh.is_closed().await;
    let health = proxy.asked("/health").await;
    assert_eq!((health.status, health.text()), (503, "draining\n".into()));
    assert_eq!(proxy.status().await["draining"], true);
    proxy.load(2, 1, 1).await;
    backend.open(2);
    for client in [&mut runs, &mut waits] {
        let response = client.response().await;
        assert_eq!(
            (response.status, response.closes()),
            (200, true),
            "the response announces that the connection closes"
        );
        client.is_closed().await;
    }
    assert_eq!(proxy.ended().await, 0, "no response was cut off");
    assert_eq!(backend.seen().len(), 3, "the request after the last response did not start");
    assert!(TcpStream::connect(proxy.admin).await.is_err());
}

#[tokio::test]
async fn a_request_that_has_begun_may_be_finished() {
    let backend = Backend::responding(HELLO).await;
    let mut proxy = Proxy::serving("", &[&backend]).await;
    let post = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n";
    let mut clients = Vec::new();
    for cut in [1, 20, post.len(), post.len() + 2] {
        let whole = format!("{post}body");
        let (begun, rest) = whole.split_at(cut);
        let mut client = proxy.client().await;
        client.send(begun).await;
        clients.push((client, rest.to_string()));
    }
    // Once a later request has a response, the proxy has read what the others sent.
    for _ in 0..5 {
        assert_eq!(proxy.get("/").await.status, 200);
    }
    proxy.drain();
    refuses(&proxy).await;
    for (client, rest) in &mut clients {
        client.send(&*rest).await;
        let response = client.response().await;
        assert_eq!((response.status, response.closes()), (200, true), "{rest:?}");
        client.is_closed().await;
    }
    assert_eq!(proxy.ended().await, 0);
}

#[tokio::test]
async fn an_upload_that_has_stalled_holds_the_drain_until_its_time_is_up() {
    let post = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n";
    for (listen, expected, cut) in
        [("body_timeout = \"100ms\"", Some(408), 0), ("drain = \"100ms\"", None, 1)]
    {
        let backend = Backend::responding(HELLO).await;
        let mut proxy = Proxy::listening(listen, "", &[&backend]).await;
        let mut client = proxy.client().await;
        client.send(format!("{post}bo")).await;
        // Once a later request has a response, the proxy has read what was sent before.
        for _ in 0..5 {
            assert_eq!(proxy.get("/").await.status, 200);
        }
        proxy.drain();
        refuses(&proxy).await;
        let (text, _) = client.rest().await;
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        assert_eq!((status, proxy.ended().await), (expected, cut), "{listen}");
        assert_eq!(backend.seen().len(), 5, "no replica gets it");
    }
}

#[tokio::test]
async fn connections_are_cut_off_after_the_drain_timeout() {
    for drain in ["0s", "80ms"] {
        let backend = Backend::silent().await;
        let listen = format!("drain = \"{drain}\"");
        let mut proxy = Proxy::listening(&listen, "slots = 2", &[&backend]).await;
        let (mut one, mut two) = (proxy.client().await, proxy.client().await);
        one.ask("/").await;
        two.ask("/").await;
        backend.has_seen(2).await;
        let mut operator = Client::connect(proxy.admin).await;
        assert_eq!(operator.get("/health").await.status, 200);
        proxy.drain();
        assert_eq!(proxy.ended().await, 2);
        // The connections have been closed, although this process continues to run.
        one.is_closed().await;
        two.is_closed().await;
        operator.is_closed().await;
    }
}
