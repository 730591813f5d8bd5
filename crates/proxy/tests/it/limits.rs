//! Tests requests and connections that exceed a limit, and requests that must not run twice.

use crate::harness::{Backend, HELLO, Proxy, eventually};

const OOPS: &str = "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n";

#[tokio::test]
async fn a_full_queue_sheds_with_retry_after() {
    let backend = Backend::gated(HELLO).await;
    let proxy = Proxy::serving("queue = 1", &[&backend]).await;
    let (mut runs, mut waits) = (proxy.client().await, proxy.client().await);
    runs.ask("/").await;
    backend.has_seen(1).await;
    waits.ask("/").await;
    proxy.load(2, 1, 1).await;
    let mut third = proxy.client().await;
    for _ in 0..3 {
        let response = third.get("/").await;
        assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
        assert!(!response.closes() && response.text().contains("too many queries are waiting"));
    }
    backend.open(2);
    assert_eq!((runs.response().await.status, waits.response().await.status), (200, 200));
    assert_eq!(proxy.count("curtail_requests_total", &[("outcome", "shed")]).await, 3);
    backend.open(1);
    assert_eq!(third.get("/").await.status, 200);
}

#[tokio::test]
async fn connections_beyond_the_last_permit_are_turned_away() {
    let backend = Backend::responding(HELLO).await;
    let proxy = Proxy::listening("max_connections = 2", "", &[&backend]).await;
    let (mut one, mut two) = (proxy.client().await, proxy.client().await);
    assert_eq!((one.get("/").await.status, two.get("/").await.status), (200, 200));
    for at in 1..=3 {
        let mut third = proxy.client().await;
        let response = third.response().await;
        assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
        assert!(response.closes() && response.whole);
        third.is_closed().await;
        let rejected = proxy.count("curtail_rejected_total", &[("reason", "connections")]).await;
        assert_eq!(rejected, at);
    }
    assert_eq!(one.get("/").await.status, 200, "the others are served");
    drop(two);
    eventually("a permit is free", async || proxy.count("curtail_connections", &[]).await < 2)
        .await;
    assert_eq!(proxy.get("/").await.status, 200);
}

/// Sends one request while both replicas are idle. Returns the number of requests that reached the
/// replicas.
async fn copies(proxy: &Proxy, replicas: &[Backend; 2], method: &str, target: &str) -> usize {
    let seen = || replicas.iter().map(|replica| replica.seen().len()).sum::<usize>();
    proxy.idle().await;
    let before = seen();
    let mut client = proxy.client().await;
    client
        .send(format!("{method} {target} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"))
        .await;
    client.response().await;
    proxy.idle().await;
    seen() - before
}

#[tokio::test]
async fn only_idempotent_requests_are_duplicated_or_retried() {
    for (lines, response) in [("policy = \"laedge\"", HELLO), ("eject_after = 0", OOPS)] {
        let replicas = [Backend::responding(response).await, Backend::responding(response).await];
        let lines = format!(
            "{lines}\nroute = [{{ path_prefix = \"/\" }}, \
             {{ path_prefix = \"/pure\", method = \"POST\", idempotent = true }}, \
             {{ path_prefix = \"/once\", idempotent = false }}]"
        );
        let proxy = Proxy::serving(&lines, &[&replicas[0], &replicas[1]]).await;
        for (method, target, expected) in [
            ("GET", "/", 2),
            ("POST", "/", 1),
            ("DELETE", "/", 1),
            ("POST", "/pure/x", 2),
            ("PUT", "/pure/x", 1),
            ("GET", "/once", 1),
        ] {
            let copies = copies(&proxy, &replicas, method, target).await;
            assert_eq!(copies, expected, "{method} {target}");
        }
    }
}

#[tokio::test]
async fn a_request_that_came_through_too_many_proxies_like_this_one_is_refused() {
    let backend = Backend::responding(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let many = |entries: usize, entry: &str| vec![entry; entries].join(", ");
    for (via, status) in [
        (format!("Via: {}\r\n", many(16, "1.1 curtail")), 200),
        (format!("Via: {}\r\n", many(17, "1.1 curtail")), 508),
        ("via: 1.0 curtail\r\n".repeat(17), 508),
        (format!("via: {}\r\nvia: 1.1 Curtail (one)\r\n", many(16, "HTTP/1.1\tcurtail")), 508),
        (format!("via: {}\r\n", many(40, "1.1 other")), 200),
        (format!("via: {}\r\n", many(40, "1.1 other (curtail)")), 200),
    ] {
        let mut client = proxy.client().await;
        client.send(format!("GET / HTTP/1.1\r\nhost: x\r\n{via}\r\n")).await;
        let response = client.response().await;
        assert_eq!((response.status, response.closes()), (status, false), "{via}");
        assert!(status == 200 || response.head.contains("508 Loop Detected"), "{}", response.head);
    }
    assert_eq!(backend.seen().len(), 3);
    assert_eq!(proxy.count("curtail_rejected_total", &[("reason", "loop")]).await, 3);
}
