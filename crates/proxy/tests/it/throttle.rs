//! Tests the stage in front of a replica that does not run a stage itself. The tests check how many
//! concurrent requests the replica gets, in which order it gets them, and which ones are purged.

use crate::harness::http2::{Act, Backend2, Http2Client, Seen2, request, whole};
use crate::harness::{Backend, Client, HELLO, Proxy, eventually};

const PUSHES: &str = "policy = \"least-outstanding\"\ncancel = \"reset\"";

async fn ask(proxy: &Proxy, target: &str, priority: &str) -> Client {
    let mut client = proxy.client().await;
    let head = format!("GET {target} HTTP/1.1\r\nhost: x\r\n{priority}\r\n");
    client.send(head).await;
    client
}

async fn waiting(proxy: &Proxy, count: u64) {
    let condition = format!("{count} to wait");
    eventually(&condition, async || proxy.count("curtail_stage_waiting", &[]).await == count).await;
}

#[tokio::test]
async fn a_replica_gets_one_request_at_a_time_duplicates_last_and_none_given_up() {
    let backend = Backend::gated(HELLO).await;
    let proxy = Proxy::serving(&format!("{PUSHES}\nthrottle = 1"), &[&backend]).await;
    let mut first = ask(&proxy, "/first", "").await;
    backend.has_seen(1).await;
    let mut duplicate = ask(&proxy, "/duplicate", "priority: u=7\r\n").await;
    waiting(&proxy, 1).await;
    let gone = ask(&proxy, "/gone", "").await;
    waiting(&proxy, 2).await;
    let mut second = ask(&proxy, "/second", "priority: u=1\r\n").await;
    waiting(&proxy, 3).await;
    drop(gone);
    waiting(&proxy, 2).await;
    for client in [&mut first, &mut second, &mut duplicate] {
        backend.open(1);
        assert_eq!(client.response().await.text(), "hello");
    }
    let lines: Vec<String> = backend.seen().iter().map(|seen| seen.line().to_owned()).collect();
    let targets: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(targets, ["/first", "/second", "/duplicate"]);
    assert_eq!(proxy.count("curtail_stage_slots", &[]).await, 1);
    assert_eq!(proxy.count("curtail_stage_duplicates_rest", &[]).await, 0);
}

#[tokio::test]
async fn a_duplicate_is_given_up_when_a_primary_needs_its_slot() {
    let backend = Backend::gated(HELLO).await;
    let proxy = Proxy::serving(&format!("{PUSHES}\nthrottle = 1"), &[&backend]).await;
    let mut duplicate = ask(&proxy, "/duplicate", "priority: u=7\r\n").await;
    backend.has_seen(1).await;
    let mut primary = ask(&proxy, "/primary", "").await;
    backend.has_seen(2).await;
    let response = duplicate.response().await;
    assert_eq!(response.status, 503);
    assert!(response.text().contains("gave way"), "{}", response.text());
    backend.open(2);
    assert_eq!(primary.response().await.text(), "hello");
}

#[tokio::test]
async fn beyond_its_queue_and_its_timeout_requests_are_shed() {
    let backend = Backend::gated(HELLO).await;
    let lines = format!(
        "{PUSHES}\nthrottle = 1\nqueue = 1\ntimeout = \"200ms\"\nattempt_timeout = \"200ms\""
    );
    let proxy = Proxy::serving(&lines, &[&backend]).await;
    let mut runs = ask(&proxy, "/", "").await;
    backend.has_seen(1).await;
    let mut waits = ask(&proxy, "/", "").await;
    waiting(&proxy, 1).await;
    let full = proxy.get("/").await;
    assert_eq!((full.status, full.header("retry-after")), (503, Some("1")));
    assert_eq!(runs.response().await.status, 504);
    let expired = waits.response().await;
    assert!(matches!(expired.status, 503 | 504), "{}", expired.status);
    assert!(proxy.count("curtail_requests_total", &[("outcome", "shed")]).await >= 1);
    waiting(&proxy, 0).await;
}

#[tokio::test]
async fn streams_of_http2_take_the_slots_of_the_stage_by_their_priorities() {
    let backend = Backend2::new(|_| [vec![Act::Gate], whole("hello")].concat()).await;
    let lines = format!("{PUSHES}\nprotocol = \"h2\"\nthrottle = 1");
    let proxy = Proxy::serving(&lines, &[&backend]).await;
    let client = Http2Client::connect(proxy.http).await;
    let mut streams = Vec::new();
    for (at, path, urgency) in
        [(0, "/first", "u=3"), (1, "/duplicate", "u=7"), (2, "/second", "u=1")]
    {
        let mut head = request("GET", path);
        head.headers_mut().insert("priority", urgency.parse().expect("a value"));
        streams.push(client.start(head, true).await);
        match at {
            0 => backend.has_seen(1).await,
            _ => waiting(&proxy, at).await,
        }
    }
    backend.open(3);
    for stream in streams {
        assert_eq!(stream.reply().await.expect("a reply").text(), "hello");
    }
    let seen = backend.seen();
    let paths: Vec<&str> = seen.iter().map(Seen2::path).collect();
    assert_eq!(paths, ["/first", "/second", "/duplicate"]);
}
