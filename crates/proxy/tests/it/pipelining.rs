//! Several requests on one connection, sent before the first is answered.

use crate::harness::{Backend, End, HELLO, Proxy, Step, say};

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n")
}

/// Answers with the target that was asked for.
async fn echo() -> Backend {
    Backend::new(|seen| {
        let target = seen.line().split(' ').nth(1).unwrap_or_default();
        vec![say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{target}", target.len()))]
    })
    .await
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_requests() {
    let (one, two) = (echo().await, echo().await);
    let proxy = Proxy::serving("", &[&one, &two]).await;
    let mut client = proxy.client().await;
    let targets: Vec<_> = (0..300).map(|at| format!("/{at}")).collect();
    client.send(targets.iter().map(|target| get(target)).collect::<String>()).await;
    for target in &targets {
        assert_eq!(client.answer().await.text(), *target);
    }
    assert_eq!(one.seen().len() + two.seen().len(), 300);
    // Cut anywhere, byte by byte.
    for byte in format!("\r\n{}\r\n{}", get("/a"), get("/b")).bytes() {
        client.send([byte]).await;
    }
    assert_eq!(client.answer().await.text(), "/a");
    assert_eq!(client.answer().await.text(), "/b");
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
    client.answer().await;
    backend.has_seen(2).await;
    backend.open(1);
    client.answer().await;
}

#[tokio::test]
async fn a_bad_request_ends_the_connection_after_the_good_ones_are_answered() {
    let backend = echo().await;
    let proxy = Proxy::serving("", &[&backend]).await;
    for bad in ["\x00\x01\x02garbage", "GET / HTTP/9.9\r\n\r\n", "GET /bad HTTP/1.1\r\n\r\n"] {
        let mut client = proxy.client().await;
        client.send(get("/1") + &get("/2") + bad + &get("/3")).await;
        assert_eq!(client.answer().await.text(), "/1");
        assert_eq!(client.answer().await.text(), "/2");
        let last = client.answer().await;
        assert!(last.status >= 400 && last.closes(), "{last:?}");
        client.is_closed().await;
    }
    assert!(backend.seen().iter().all(|seen| !seen.line().contains("/3")));
}

#[tokio::test]
async fn nothing_after_the_last_request_by_its_own_word_is_served() {
    let backend = echo().await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut client = proxy.client().await;
    client.send(get("/1").replace("host", "connection: close\r\nhost") + &get("/2")).await;
    let answer = client.answer().await;
    assert_eq!((answer.text(), answer.closes()), ("/1".into(), true));
    client.is_closed().await;
    assert_eq!(backend.seen().len(), 1);
}

#[tokio::test]
async fn garbage_behind_a_request_waits_its_turn() {
    let backend = Backend::gated(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut client = proxy.client().await;
    client.send(get("/")).await;
    backend.has_seen(1).await;
    // More than is ever read ahead.
    let garbage = "\x00".repeat(1 << 20);
    let sending = async {
        client.send(garbage).await;
        client
    };
    let answering = async {
        proxy.load(1, 0, 1).await;
        backend.open(1);
    };
    let (mut client, ()) = tokio::join!(sending, answering);
    assert_eq!(client.answer().await.text(), "hello");
    assert_eq!(client.answer().await.status, 400);
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
    // Inside of a request there is nobody to be told.
    for half in
        ["G", "GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf"]
    {
        let mut client = proxy.client().await;
        client.send(half).await;
        client.finish().await;
        client.is_closed().await;
    }
    assert_eq!(backend.seen().len(), 1);
    // While an answer is worked on, it counts as gone: on the wire the two look alike.
    let silent = Backend::silent().await;
    let proxy = Proxy::serving("cancel = \"reset\"", &[&silent]).await;
    let mut client = proxy.client().await;
    client.send(get("/")).await;
    silent.has_seen(1).await;
    client.finish().await;
    client.is_closed().await;
    proxy.idle().await;
}

#[tokio::test]
async fn a_long_answer_does_not_keep_the_next_request_from_being_served() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";
    let backend = Backend::new(move |_| vec![say(head), Step::Flood(1_000_000)]).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut client = proxy.client().await;
    client.send(get("/1") + &get("/2")).await;
    for _ in 0..2 {
        let answer = client.answer().await;
        assert!(answer.whole && answer.body.len() == 1_000_000);
    }
    assert_eq!(backend.connections(), 1);
}
