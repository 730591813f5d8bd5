//! Replicas that fail to answer, or answer in unusual ways. Long answers are in `streams.rs`.

use crate::harness::{Backend, HELLO, Proxy, Step, say};

const OOPS: &str = "HTTP/1.1 500 Oops\r\ncontent-length: 4\r\nx-why: w\r\n\r\noops";

/// What is no whole answer.
fn broken() -> Vec<String> {
    let ok = "HTTP/1.1 200 OK\r\n";
    vec![
        String::new(),
        "HTTP/1.1 2".into(),
        "HTTP/1.1 200 OK\r\ncontent-le".into(),
        format!("{ok}content-length: 9\r\n\r\nhalf"),
        "garbage\r\n\r\n".into(),
        "\x00\x01\x02".into(),
        "HTTP/1.1 999 What\r\n\r\n".into(),
        "HTTP/2.0 200 OK\r\n\r\n".into(),
        format!("{ok}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("{ok}content-length: 5\r\ncontent-length: 5\r\n\r\nhello"),
        format!("{ok}content-length: x\r\n\r\nhello"),
        format!("{ok}transfer-encoding: gzip\r\n\r\nhello"),
        format!("{ok}x: {}\r\n\r\n", "y".repeat(20 << 10)),
        format!("{ok}{}content-length: 0\r\n\r\n", "x: y\r\n".repeat(101)),
        format!("{ok}x: a\nb: c\r\n\r\n"),
        "HTTP/1.1 101 Switching Protocols\r\n\r\n".into(),
        "HTTP/1.1 100 Continue\r\n\r\n".repeat(17) + HELLO,
    ]
}

#[tokio::test]
async fn what_is_no_answer_is_asked_of_another_replica_and_then_given_up() {
    for text in broken() {
        let (one, two) = (Backend::ends(&text).await, Backend::ends(&text).await);
        let proxy = Proxy::serving("", &[&one, &two]).await;
        let answer = proxy.get("/").await;
        assert_eq!(answer.status, 502, "{text:?}");
        assert!(answer.whole && !answer.closes(), "the client's connection is fine");
        assert_eq!((one.seen().len(), two.seen().len()), (1, 1), "{text:?}");
        // Not twice: it may have had an effect.
        assert_eq!(proxy.client().await.post("/", "x").await.status, 502);
        assert_eq!(one.seen().len() + two.seen().len(), 3);
        proxy.idle().await;
    }
}

#[tokio::test]
async fn the_answer_of_another_replica_does() {
    for text in broken().into_iter().chain([OOPS.into()]) {
        let (bad, good) = (Backend::ends(&text).await, Backend::says(HELLO).await);
        let proxy = Proxy::serving("", &[&bad, &good]).await;
        for _ in 0..3 {
            let answer = proxy.get("/").await;
            assert_eq!((answer.status, answer.text()), (200, "hello".into()), "{text:?}");
        }
        proxy.idle().await;
    }
}

#[tokio::test]
async fn answers_that_say_that_the_replica_failed_are_better_than_none() {
    let (one, two) = (Backend::says(OOPS).await, Backend::says(OOPS).await);
    let proxy = Proxy::serving("", &[&one, &two]).await;
    let mut client = proxy.client().await;
    let answer = client.get("/").await;
    assert_eq!((answer.status, answer.text()), (500, "oops".into()));
    assert_eq!(answer.header("x-why"), Some("w"));
    assert_eq!((one.seen().len(), two.seen().len()), (1, 1), "each was asked");
    let answer = client.post("/", "x").await;
    assert_eq!((answer.status, answer.text()), (500, "oops".into()));
    assert_eq!(one.seen().len() + two.seen().len(), 3, "a POST is asked once");
    // A long one comes whole, too.
    let head = "HTTP/1.1 503 Busy\r\ncontent-length: 1000000\r\n\r\n";
    let long = Backend::new(move |_| vec![say(head), Step::Flood(1_000_000)]).await;
    let proxy = Proxy::serving("", &[&long]).await;
    let answer = proxy.get("/").await;
    assert_eq!((answer.status, answer.body.len(), answer.whole), (503, 1_000_000, true));
    proxy.idle().await;
}

#[tokio::test]
async fn a_second_answer_is_never_taken_for_the_next_one() {
    let twice = format!("{HELLO}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil");
    let backend = Backend::says(twice).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut client = proxy.client().await;
    for connection in 0..5 {
        assert_eq!(client.get("/").await.text(), "hello");
        assert_eq!(backend.seen().pop().expect("a request").connection, connection);
    }
    // One that comes late.
    let late = Backend::new(|_| {
        vec![say(HELLO), Step::Gate, say("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")]
    })
    .await;
    let proxy = Proxy::serving("", &[&late]).await;
    for _ in 0..5 {
        assert_eq!(proxy.get("/").await.text(), "hello");
        late.open(1);
    }
}

#[tokio::test]
async fn a_replica_that_hangs_is_replaced_and_when_all_hang_the_client_hears_it() {
    let lines = "attempt_timeout = \"80ms\"\ncancel = \"reset\"";
    let (silent, good) = (Backend::silent().await, Backend::says(HELLO).await);
    let proxy = Proxy::serving(lines, &[&silent, &good]).await;
    for _ in 0..2 {
        assert_eq!(proxy.get("/").await.text(), "hello");
    }
    proxy.idle().await;
    assert_eq!(silent.closed(), silent.seen().len(), "the connection is given up");

    let (one, two) = (Backend::silent().await, Backend::silent().await);
    let proxy = Proxy::serving(lines, &[&one, &two]).await;
    let mut client = proxy.client().await;
    let answer = client.get("/").await;
    assert_eq!((answer.status, answer.closes()), (504, false), "{}", answer.text());
    assert_eq!((one.seen().len(), two.seen().len()), (1, 1));
    assert_eq!(client.post("/", "x").await.status, 504);
    assert_eq!(one.seen().len() + two.seen().len(), 3, "a POST is asked once");
    proxy.idle().await;

    // The whole request has its time, too.
    let proxy = Proxy::serving("timeout = \"80ms\"\ncancel = \"reset\"", &[&one, &two]).await;
    assert_eq!(proxy.get("/").await.status, 504);
    proxy.idle().await;
}

#[tokio::test]
async fn interim_answers_are_not_answers() {
    let text =
        format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n{HELLO}");
    let backend = Backend::says(text).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    for _ in 0..2 {
        let answer = proxy.get("/").await;
        assert_eq!((answer.status, answer.text()), (200, "hello".into()));
        assert_eq!(answer.header("link"), None);
    }
    assert_eq!(backend.connections(), 1);
}

#[tokio::test]
async fn answers_without_a_body_have_none() {
    for (text, status) in [
        ("HTTP/1.1 204 No Content\r\nx: y\r\n\r\n", 204),
        ("HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", 204),
        ("HTTP/1.1 304 Not Modified\r\netag: e\r\ncontent-length: 5\r\n\r\n", 304),
        ("HTTP/1.1 304 Not Modified\r\ntransfer-encoding: chunked\r\n\r\n", 304),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200),
    ] {
        let backend = Backend::says(text).await;
        let proxy = Proxy::serving("", &[&backend]).await;
        let mut client = proxy.client().await;
        for _ in 0..3 {
            let answer = client.get("/").await;
            assert_eq!((answer.status, answer.body.len(), answer.closes()), (status, 0, false));
            let length = answer.header("content-length");
            assert_eq!(length, (status == 200).then_some("0"), "{text:?}");
        }
        assert_eq!(backend.connections(), 1, "{text:?}");
    }
}

#[tokio::test]
async fn a_connection_that_the_replica_closed_meanwhile_is_replaced_but_no_post_is_sent_twice() {
    // Whatever comes second on a connection is read, and the connection closed.
    let backend = Backend::new(|seen| {
        let mark = seen.header("x-first").len();
        if mark == 1 { vec![say(HELLO)] } else { vec![Step::Close] }
    })
    .await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut client = proxy.client().await;
    let first = "GET /first HTTP/1.1\r\nhost: x\r\nx-first: 1\r\n\r\n";
    client.send(first).await;
    assert_eq!(client.answer().await.text(), "hello");
    assert_eq!(client.post("/", "x").await.status, 502);
    let posts = |backend: &Backend| {
        backend.seen().iter().filter(|seen| seen.line().starts_with("POST")).count()
    };
    assert_eq!(posts(&backend), 1, "it may have had an effect");
    proxy.up(1).await;

    // A GET is sent again, on a new connection.
    let backend = Backend::new(|seen| match (seen.connection, seen.line()) {
        (0, "GET /again HTTP/1.1") => vec![Step::Close],
        _ => vec![say(HELLO)],
    })
    .await;
    let proxy = Proxy::serving("retry_budget = 0.0", &[&backend]).await;
    let mut client = proxy.client().await;
    assert_eq!(client.get("/").await.text(), "hello");
    assert_eq!(client.get("/again").await.text(), "hello");
    let connections: Vec<_> = backend.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [0, 0, 1]);

    // One that was closed right after its answer is not even tried.
    let backend = Backend::ends(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    for at in 1..10 {
        assert_eq!(proxy.client().await.post("/", "x").await.text(), "hello");
        assert_eq!(backend.seen().len(), at);
    }
}
