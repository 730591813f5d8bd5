//! Tests with replicas that fail to respond, or respond in unusual ways. Tests of long responses
//! are in `streams.rs`.

use crate::harness::{Backend, HELLO, Proxy, Step, say};

#[tokio::test]
async fn a_replica_that_hangs_is_replaced_and_if_all_hang_the_client_gets_504() {
    let lines = "attempt_timeout = \"80ms\"\ncancel = \"reset\"";
    let (silent, good) = (Backend::silent().await, Backend::responding(HELLO).await);
    let proxy = Proxy::serving(lines, &[&silent, &good]).await;
    for _ in 0..2 {
        assert_eq!(proxy.get("/").await.text(), "hello");
    }
    proxy.idle().await;
    assert_eq!(silent.closed(), silent.seen().len(), "the connection is given up");

    let (one, two) = (Backend::silent().await, Backend::silent().await);
    let proxy = Proxy::serving(lines, &[&one, &two]).await;
    let mut client = proxy.client().await;
    let response = client.get("/").await;
    assert_eq!((response.status, response.closes()), (504, false), "{}", response.text());
    assert_eq!((one.seen().len(), two.seen().len()), (1, 1));
    assert_eq!(client.post("/", "x").await.status, 504);
    assert_eq!(one.seen().len() + two.seen().len(), 3, "a POST is sent once");
    proxy.idle().await;

    // The whole request also has a timeout.
    let proxy = Proxy::serving("timeout = \"80ms\"\ncancel = \"reset\"", &[&one, &two]).await;
    assert_eq!(proxy.get("/").await.status, 504);
    proxy.idle().await;
}

#[tokio::test]
async fn no_post_is_sent_twice_on_a_connection_that_the_replica_closes() {
    // The replica reads the second request on a connection, and closes it without a response.
    let backend = Backend::new(|seen| {
        let mark = seen.header("x-first").len();
        if mark == 1 { vec![say(HELLO)] } else { vec![Step::Close] }
    })
    .await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut client = proxy.client().await;
    let first = "GET /first HTTP/1.1\r\nhost: x\r\nx-first: 1\r\n\r\n";
    client.send(first).await;
    assert_eq!(client.response().await.text(), "hello");
    assert_eq!(client.post("/", "x").await.status, 502);
    let posts = |backend: &Backend| {
        backend.seen().iter().filter(|seen| seen.line().starts_with("POST")).count()
    };
    assert_eq!(posts(&backend), 1, "it may have had an effect");
    proxy.up(1).await;
}
