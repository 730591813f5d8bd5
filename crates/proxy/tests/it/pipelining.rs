//! Several requests on one connection, sent before the first is answered.

use crate::harness::{Backend, End, HELLO, Proxy, say};

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n")
}

/// Responds with the target that was asked for.
async fn echo() -> Backend {
    Backend::new(|seen| {
        let target = seen.line().split(' ').nth(1).unwrap_or_default();
        vec![say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{target}", target.len()))]
    })
    .await
}

#[tokio::test]
async fn only_one_request_of_a_connection_runs_at_once() {
    let backend = Backend::gated(HELLO).await;
    let proxy = Proxy::serving("slots = 8", &[&backend]).await;
    let mut client = proxy.client().await;
    client.send(get("/1") + &get("/2")).await;
    backend.has_seen(1).await;
    proxy.load(1, 0, 1).await;
    backend.open(1);
    client.response().await;
    backend.has_seen(2).await;
    backend.open(1);
    client.response().await;
}

#[tokio::test]
async fn noise_behind_a_request_waits_its_turn() {
    let backend = Backend::gated(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut client = proxy.client().await;
    client.send(get("/")).await;
    backend.has_seen(1).await;
    // More than is ever read ahead.
    let noise = "\x00".repeat(1 << 20);
    let sending = async {
        client.send(noise).await;
        client
    };
    let answering = async {
        proxy.load(1, 0, 1).await;
        backend.open(1);
    };
    let (mut client, ()) = tokio::join!(sending, answering);
    assert_eq!(client.response().await.text(), "hello");
    assert_eq!(client.response().await.status, 400);
    let _ = client.rest().await;
    proxy.idle().await;
}

#[tokio::test]
async fn a_client_that_closes_its_half_has_left() {
    // Between two requests it is an orderly end.
    let backend = echo().await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut client = proxy.client().await;
    assert_eq!(client.get("/1").await.text(), "/1");
    client.finish().await;
    let (rest, end) = client.rest().await;
    assert_eq!((rest.as_str(), end), ("", End::Closed));
    // Inside of a request there is no client left.
    for half in
        ["G", "GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf"]
    {
        let mut client = proxy.client().await;
        client.send(half).await;
        client.finish().await;
        client.is_closed().await;
    }
    assert_eq!(backend.seen().len(), 1);
    // While a response is worked on, it counts as gone: on the wire the two look alike.
    let silent = Backend::silent().await;
    let proxy = Proxy::serving("cancel = \"reset\"", &[&silent]).await;
    let mut client = proxy.client().await;
    client.send(get("/")).await;
    silent.has_seen(1).await;
    client.finish().await;
    client.is_closed().await;
    proxy.idle().await;
}
