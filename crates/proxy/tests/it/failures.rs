//! Tests that failures never turn a slow service into one that is down: which failures eject a
//! replica, for how long, which requests another replica gets, and what happens when no other
//! replica is left.

use crate::harness::{Backend, Client, HELLO, Proxy, Seen, Step, dead, eventually, say};

async fn ejections(proxy: &Proxy) -> u64 {
    proxy.count("curtail_ejections_total", &[]).await
}

async fn ejected(proxy: &Proxy, reason: &str) {
    eventually("an ejection", async || {
        proxy.count("curtail_ejections_total", &[("reason", reason)]).await > 0
    })
    .await;
}

/// Returns a replica that plays `steps` for requests whose path begins with `/bad`.
async fn partly(steps: Vec<Step>) -> Backend {
    let script = move |seen: &Seen| {
        let bad = seen.line().split(' ').nth(1).is_some_and(|path| path.starts_with("/bad"));
        if bad { steps.clone() } else { vec![say(HELLO)] }
    };
    Backend::new(script).await
}

/// Returns a proxy with two replicas that have both sent good responses.
async fn two(lines: &str, steps: Vec<Step>) -> (Proxy, [Backend; 2]) {
    let replicas = [partly(steps.clone()).await, partly(steps).await];
    let proxy = Proxy::serving(lines, &[&replicas[0], &replicas[1]]).await;
    while replicas.iter().any(|replica| replica.seen().is_empty()) {
        assert_eq!(proxy.get("/").await.text(), "hello");
    }
    (proxy, replicas)
}

#[tokio::test]
async fn a_slow_url_called_twice_at_once_takes_no_shard_out() {
    let lines = "attempt_timeout = \"50ms\"\ncancel_timeout = \"150ms\"";
    let (proxy, replicas) = two(lines, vec![Step::Hang]).await;
    for _ in 0..3 {
        let (mut one, mut two, mut waits) =
            (proxy.client().await, proxy.client().await, proxy.client().await);
        one.ask("/bad").await;
        two.ask("/bad").await;
        // The deadline of the query is far away, so the query waits until one of the two slots is
        // free.
        assert_eq!(waits.get("/").await.text(), "hello");
        let response = one.response().await;
        assert_eq!([response.status, two.response().await.status], [504, 504]);
        assert!(response.text().contains("attempt_timeout = \"50ms\""), "{}", response.text());
        proxy.idle().await;
    }
    eventually("each to be given up", async || {
        replicas.iter().map(Backend::closed).sum::<usize>() == 12
    })
    .await;
    proxy.up(2).await;
    assert_eq!(ejections(&proxy).await, 0);
}

#[tokio::test]
async fn one_refused_connection_ejects_nothing() {
    let (gone, good) = (dead(), Backend::responding(HELLO).await);
    let proxy = Proxy::serving("", &[&gone, &good]).await;
    let refused = async || {
        let labels = [("outcome", "connect_failed")];
        proxy.count("curtail_copies_ended_total", &labels).await > 0
    };
    while !refused().await {
        assert_eq!(proxy.get("/").await.text(), "hello");
    }
    proxy.up(2).await;
    let back = gone.revive(|_| vec![say(HELLO)]);
    while back.seen().is_empty() {
        assert_eq!(proxy.get("/").await.text(), "hello");
    }
    assert_eq!(ejections(&proxy).await, 0);
}

#[tokio::test]
async fn a_replica_where_nothing_listens_is_ejected_and_comes_back() {
    let (gone, good) = (dead(), Backend::responding(HELLO).await);
    let lines = "ejection_time = \"10ms\"";
    let proxy = Proxy::serving(lines, &[&gone, &good]).await;
    while ejections(&proxy).await == 0 {
        // Nothing was sent, so even a POST goes to the other replica.
        assert_eq!(proxy.client().await.post("/", "x").await.text(), "hello");
    }
    proxy.up(1).await;
    ejected(&proxy, "connect_failed").await;
    let back = gone.revive(|_| vec![say(HELLO)]);
    proxy.up(2).await;
    while back.seen().is_empty() {
        assert_eq!(proxy.get("/").await.text(), "hello");
    }
}

#[tokio::test]
async fn without_any_replica_requests_fail_at_once_or_wait_for_one() {
    let gone = dead();
    // No other replica is left, so the proxy keeps trying this one.
    let proxy = Proxy::serving("", &[&gone]).await;
    let mut client = proxy.client().await;
    for _ in 0..10 {
        assert_eq!(client.get("/").await.status, 502);
    }
    proxy.up(1).await;
    // If probes find that nothing listens, requests wait.
    let health = "health = { path = \"/\", interval = \"5ms\" }";
    let lines = format!("{health}\ntimeout = \"100ms\"");
    let proxy = Proxy::serving(&lines, &[&gone]).await;
    proxy.up(0).await;
    ejected(&proxy, "probes").await;
    let response = proxy.get("/").await;
    assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
    assert!(response.text().contains("no replica of this shard is up"), "{}", response.text());
    let proxy = Proxy::serving(health, &[&gone]).await;
    proxy.up(0).await;
    let mut client = proxy.client().await;
    client.ask("/").await;
    proxy.load(1, 1, 0).await;
    let _back = gone.revive(|_| vec![say(HELLO)]);
    assert_eq!(client.response().await.text(), "hello");
    assert_eq!(proxy.asked("/health").await.status, 200, "the proxy itself is healthy");
}

#[tokio::test]
async fn a_response_about_the_request_is_no_failure_of_the_replica() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(20_000));
    for (text, status) in [
        ("HTTP/1.1 501 Not Implemented\r\ncontent-length: 0\r\n\r\n", 501),
        ("HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-length: 0\r\n\r\n", 505),
        (&long, 502),
    ] {
        let (proxy, replicas) = two("eject_after = 1", vec![say(text), Step::Close]).await;
        let asked = || replicas.iter().map(|replica| replica.seen().len()).sum::<usize>();
        for method in ["GET", "PROPFIND"] {
            let before = asked();
            let mut client = proxy.client().await;
            client.send(format!("{method} /bad HTTP/1.1\r\nhost: x\r\n\r\n")).await;
            assert_eq!(client.response().await.status, status);
            assert!(status == 502 || asked() == before + 1, "a good response: {status}");
        }
        proxy.up(2).await;
        assert_eq!(ejections(&proxy).await, 0, "{status}");
    }
}

/// The responses consist almost entirely of the head, so it is the flush of a head that blocks.
#[tokio::test]
async fn a_client_that_does_not_read_a_head_holds_the_slot_no_longer_than_the_timeout() {
    let head = format!(
        "HTTP/1.1 200 OK\r\nx: {}\r\ntransfer-encoding: chunked\r\n\r\n",
        "y".repeat(15_000)
    );
    let backend = Backend::responding(head + "1\r\nz\r\n0\r\n\r\n").await;
    let lines = "timeout = \"150ms\"\ncancel = \"reset\"";
    let proxy = Proxy::listening("write_timeout = \"99s\"", lines, &[&backend]).await;
    let mut client = Client::narrow(proxy.http).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2_000)).await;
    proxy.disconnected().await;
    proxy.idle().await;
    assert!(backend.seen().len() < 2_000);
}

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
