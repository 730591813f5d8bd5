//! Tests the responses of a leaf over sockets, and the requests that it refuses.

use crate::net::{Client, Running, distribution, get, index, leaf_config, search, stats_until};
use curtail_search::leaf_server::{self, LeafServerError, LeafStats};
use curtail_search::{Query, SearchResponse};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_leaf_returns_the_result_of_its_engine() {
    let (_folder, index) = index(2);
    let leaf = Running::leaf(leaf_config(index.directory(), 1, 3)).await;
    let mut client = Client::connect(leaf.address).await;
    let engine = index.leaf(1).expect("the shard opens");
    for (target, query, k) in [
        ("/search?q=word", "word", 10),
        ("/search?q=%2Bword+3&k=2", "+word 3", 2),
        ("/search?k=1000&q=%22number%205%22", "\"number 5\"", 1000),
        ("/search?q=absent", "absent", 10),
    ] {
        let got = client.get(target, &[]).await;
        let query = Query::parse(query).expect("a query");
        assert_eq!(got.status, 200);
        assert_eq!(got.header("content-type"), Some("application/json"));
        assert_eq!(got.header("x-curtail-leaf"), Some("1.3"));
        assert_eq!(got.json::<SearchResponse>(), engine.answer(&query, k).expect("an answer"));
    }
}

#[tokio::test]
async fn a_leaf_that_stretches_nothing_reports_none() {
    let leaf = Running::alone(|_| ()).await;
    let got = get(leaf.address, "/search?q=word").await;
    assert_eq!(got.header("x-curtail-stretched"), None);
    assert_eq!((got.timing("stretch"), got.timing("own")), (Some(0.0), None));
    assert!(got.timing("real").is_some_and(|real| real > 0.0));
    let stats: LeafStats = get(leaf.address, "/stats").await.json();
    assert!(!stats.stretched && stats.real_time_ns > 0);
    assert_eq!((stats.served, stats.stretched_time_ns, stats.busy), (1, 0, 0));
}

#[tokio::test]
async fn bad_requests_get_a_reason_and_keep_the_connection() {
    let leaf = Running::alone(|_| ()).await;
    let mut client = Client::connect(leaf.address).await;
    for (target, status, word) in [
        ("/search", 400, "the parameter q is missing"),
        ("/search?q=%22open", 400, "never closed"),
        ("/search?q=a&k=99999999999999999999999", 400, "from 1 to 1000"),
        ("/nothing", 404, "/search"),
    ] {
        let got = client.get(target, &[]).await;
        assert_eq!(got.status, status, "{target}");
        let error: serde_json::Value = got.json();
        assert!(error["error"].as_str().is_some_and(|text| text.contains(word)), "{error}");
    }
    let stats: LeafStats = client.get("/stats", &[]).await.json();
    assert_eq!((stats.served, stats.failed, stats.cancelled), (0, 0, 0));
}

#[tokio::test]
async fn garbage_is_refused() {
    let leaf = Running::alone(|_| ()).await;
    for (bytes, status) in [
        (&b"\x16\x03\x01\x02\x00\x01\xfc\x03\x03\r\n\r\n"[..], "400"),
        (b"POST /search?q=a HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", "405"),
        (b"POST /search HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n", "413"),
    ] {
        let mut stream = TcpStream::connect(leaf.address).await.expect("it listens");
        stream.write_all(bytes).await.expect("it reads");
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.expect("an answer");
        assert_eq!(start, format!("HTTP/1.1 {status}").as_bytes());
    }
    assert_eq!(get(leaf.address, "/search?q=word").await.status, 200, "it still works");
}

#[tokio::test]
async fn a_full_queue_refuses_and_health_does_not_queue() {
    let leaf = Running::alone(|config| {
        (config.service_time, config.queue) = (Some(distribution("det:60s")), 1);
    })
    .await;
    let first = search(leaf.address, "/search?q=word");
    stats_until(leaf.address, |stats| stats.busy == 1).await;
    let second = search(leaf.address, "/search?q=word");
    stats_until(leaf.address, |stats| stats.waiting == 1).await;
    let third = get(leaf.address, "/search?q=word").await;
    assert_eq!((third.status, third.header("retry-after")), (503, Some("1")));
    assert_eq!(get(leaf.address, "/health").await.status, 200);
    let stats: LeafStats = get(leaf.address, "/stats").await.json();
    assert_eq!((stats.refused, stats.waiting, stats.busy, stats.slots), (1, 1, 1, 1));
    assert!(!first.is_finished() && !second.is_finished());
}

#[tokio::test]
async fn running_queries_finish_before_a_leaf_stops() {
    let mut leaf =
        Running::alone(|config| config.service_time = Some(distribution("det:100ms"))).await;
    let mut idle = Client::connect(leaf.address).await;
    assert_eq!(idle.get("/health", &[]).await.status, 200);
    let running = search(leaf.address, "/search?q=word");
    stats_until(leaf.address, |stats| stats.busy == 1).await;
    leaf.stop();
    let got = running.await.expect("no panic");
    assert_eq!((got.status, got.header("connection")), (200, Some("close")));
    assert!(idle.try_get("/health", &[]).await.is_none(), "idle connections are closed");
    let address = leaf.address;
    leaf.stopped().await;
    assert!(
        TcpStream::connect(address).await.is_err(),
        "the address no longer accepts connections"
    );
}

#[tokio::test]
async fn impossible_leaves_are_not_started() {
    let (_folder, index) = index(2);
    let mut config = leaf_config(index.directory(), 2, 0);
    let error = leaf_server::bind(config.clone()).await.expect_err("there are two shards");
    assert!(matches!(&error, LeafServerError::Index(_)), "{error}");
    (config.shard, config.slots) = (0, 0);
    let error = leaf_server::bind(config.clone()).await.expect_err("no slots");
    assert_eq!(error.to_string(), "0 slots: must be 1 to 65535");
    config.slots = 1;
    let leaf = Running::leaf(config.clone()).await;
    config.listen = leaf.address;
    let error = leaf_server::bind(config).await.expect_err("the port is taken").to_string();
    assert!(error.contains(&leaf.address.to_string()), "{error}");
}
