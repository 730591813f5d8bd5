//! Tests a root with leaves over sockets.

use std::net::SocketAddr;

use crate::net::{
    Client, LONG, MS, Running, dead_address, distribution, get, index, leaf_config, search,
    stats_until,
};
use curtail_kernel::{Limits, Policy};
use curtail_search::leaf_server::LeafStats;
use curtail_search::root_server::{self, RootConfig, RootResponse, ShardError, ShardTiming};
use curtail_search::{Corpus, Hit, SearchResponse, Source, sample_queries};
use tokio::time::Instant;

/// The leaves of each shard, by replica. They run until they are dropped.
struct Leaves(Vec<Vec<Running>>);

impl Leaves {
    async fn start(directory: &std::path::Path, shards: u32, replicas: u32, time: &str) -> Self {
        let mut all = Vec::new();
        for shard in 0..shards {
            let mut leaves = Vec::new();
            for replica in 0..replicas {
                let mut config = leaf_config(directory, shard, replica);
                config.service_time = Some(distribution(time));
                leaves.push(Running::leaf(config).await);
            }
            all.push(leaves);
        }
        Self(all)
    }

    fn addresses(&self) -> Vec<Vec<SocketAddr>> {
        self.0.iter().map(|leaves| leaves.iter().map(|leaf| leaf.address).collect()).collect()
    }
}

fn percent_encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn bits(hits: Vec<Hit>) -> Vec<(u64, u32, String)> {
    hits.into_iter().map(|hit| (hit.id, hit.score.to_bits(), hit.title)).collect()
}

#[tokio::test]
async fn the_root_equals_one_leaf_over_everything() {
    let limits = curtail_search::Limits { max_documents: 400, ..Default::default() };
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let corpus = Corpus::load(&Source::Path(sources), limits).expect("this repository has text");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [one, three] = [1, 3].map(|shards| {
        crate::common::build(&folder.path().join(shards.to_string()), &corpus, shards)
    });
    let whole = Leaves::start(one.directory(), 1, 1, "det:0ms").await;
    let parts = Leaves::start(three.directory(), 3, 2, "exp:1ms").await;
    let root = Running::root(parts.addresses(), "laedge").await;
    let mut leaf = Client::connect(whole.0[0][0].address).await;
    let mut client = Client::connect(root.address).await;
    let mut found = 0;
    for (query, k) in sample_queries(corpus.documents(), 40, 3).iter().zip([1, 10, 200].repeat(14))
    {
        let target = format!("/search?q={}&k={k}", percent_encode(query));
        let expected: SearchResponse = leaf.get(&target, &[]).await.json();
        let got = client.get(&target, &[]).await;
        assert_eq!(got.status, 200, "{}", got.text());
        let answer: RootResponse = got.json();
        assert_eq!((answer.matched, answer.shards), (expected.matched, 3));
        found += answer.hits.len();
        assert_eq!(bits(answer.hits), bits(expected.hits), "{query}");
    }
    assert!(found >= 40, "only {found} hits");
}

#[tokio::test]
async fn a_response_has_the_times_of_each_shard() {
    let (_folder, index) = index(3);
    let leaves = Leaves::start(index.directory(), 3, 1, "det:20ms").await;
    let root = Running::root(leaves.addresses(), "psq").await;
    let start = Instant::now();
    let two = [search(root.address, "/search?q=word"), search(root.address, "/search?q=number")];
    for got in two {
        let got = got.await.expect("no panic");
        let latency = start.elapsed();
        let header = got.header("server-timing").expect("it is there");
        let timings = ShardTiming::read_all(header.as_bytes());
        assert_eq!(timings.len(), 3, "{header}");
        for ShardTiming { took, ran, served, drawn } in timings {
            let (served, drawn) = (served.expect("the leaf's timing"), drawn.expect("it draws"));
            assert_eq!(drawn, 20 * MS);
            assert!(drawn <= served && served <= ran && ran <= took && took <= latency, "{header}");
        }
    }
}

#[tokio::test]
async fn an_idle_system_gets_two_copies_of_a_query() {
    let (_folder, index) = index(3);
    let leaves = Leaves::start(index.directory(), 3, 2, "det:20ms").await;
    for (policy, copies) in [("laedge", "6"), ("psq", "3")] {
        let root = Running::root(leaves.addresses(), policy).await;
        let got = get(root.address, "/search?q=word").await;
        assert_eq!((got.status, got.header("x-curtail-copies")), (200, Some(copies)), "{policy}");
        let queued = got.header("x-curtail-queued-us").and_then(|us| us.parse().ok());
        assert!(queued.is_some_and(|us: u64| us < 1_000_000), "{queued:?}");
        // The losing copies run to completion.
        for leaf in leaves.0.iter().flatten() {
            stats_until(leaf.address, |stats| stats.busy == 0).await;
        }
    }
}

#[tokio::test]
async fn the_status_has_what_the_policy_has_learned() {
    let (_folder, index) = index(1);
    let leaves = Leaves::start(index.directory(), 1, 2, "det:0ms").await;
    for (policy, learns) in [("rescue", true), ("psq", false)] {
        let root = Running::root(leaves.addresses(), policy).await;
        assert_eq!(get(root.address, "/search?q=word").await.status, 200);
        let status: serde_json::Value = get(root.address, "/status").await.json();
        let service = &status["services"][0];
        assert_eq!(service.get("learned").is_some(), learns, "{policy}");
        // A single query is not enough for the policy to learn anything.
        assert!(service["learned"]["suspect_ns"].is_null(), "{status}");
        assert_eq!(service["learned"]["fallbacks"].as_u64(), learns.then_some(0), "{status}");
    }
}

#[tokio::test]
async fn queries_wait_in_the_root_and_not_at_the_leaf() {
    let (_folder, index) = index(1);
    let leaves = Leaves::start(index.directory(), 1, 1, "det:1min").await;
    let leaf = leaves.0[0][0].address;
    let root = Running::root(leaves.addresses(), "psq").await;
    let first = search(root.address, "/search?q=word");
    stats_until(leaf, |stats| stats.busy == 1).await;
    let second = search(root.address, "/search?q=word");
    waiting_until(root.address, 1).await;
    let stats = stats_until(leaf, |stats| stats.busy == 1).await;
    assert_eq!((stats.waiting, stats.served), (0, 0));
    first.abort();
    waiting_until(root.address, 0).await;
    stats_until(leaf, |stats| stats.cancelled == 1 && stats.busy == 1).await;
    assert!(!second.is_finished());
}

/// Requests the root's status until this number of queries waits for shard 0.
async fn waiting_until(root: SocketAddr, count: u32) {
    let mut client = Client::connect(root).await;
    let start = Instant::now();
    loop {
        let status: serde_json::Value = client.get("/status", &[]).await.json();
        if status["services"][0]["shards"][0]["queue"] == count {
            return;
        }
        assert!(start.elapsed() < LONG, "the count never reached {count}: {status}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_dead_replica_causes_no_errors() {
    let (_folder, index) = index(2);
    let leaves = Leaves::start(index.directory(), 2, 1, "det:0ms").await;
    let mut addresses = leaves.addresses();
    for replicas in &mut addresses {
        replicas.push(dead_address().await);
    }
    let root = Running::root(addresses, "round-robin").await;
    let mut client = Client::connect(root.address).await;
    for number in 0..50 {
        let got = client.get(&format!("/search?q=word+{number}"), &[]).await;
        assert_eq!(got.status, 200, "{}", got.text());
    }
    let status: serde_json::Value = client.get("/status", &[]).await.json();
    let service = &status["services"][0];
    assert_eq!(service["policy"], "round-robin");
    for (shard, name) in ["0", "1"].into_iter().enumerate() {
        let shard = &service["shards"][shard];
        assert_eq!((&shard["name"], &shard["queue"]), (&name.into(), &0.into()));
        let (live, dead) = (&shard["servers"][0], &shard["servers"][1]);
        assert_eq!(
            (&live["up"], &live["slots"], &live["busy"]),
            (&true.into(), &1.into(), &0.into())
        );
        assert_eq!(dead["up"], false);
    }
}

#[tokio::test]
async fn a_leaf_that_comes_back_is_found() {
    let (_folder, index) = index(1);
    let mut config = leaf_config(index.directory(), 0, 0);
    config.listen = dead_address().await;
    let root = Running::root(vec![vec![config.listen]], "psq").await;
    let refused = get(root.address, "/search?q=word").await;
    let error: ShardError = refused.json();
    assert_eq!((refused.status, error.shard), (503, 0), "{error:?}");
    let leaf = Running::leaf(config).await;
    let start = Instant::now();
    while get(root.address, "/search?q=word").await.status != 200 {
        assert!(start.elapsed() < LONG, "the leaf at {} is missing", leaf.address);
    }
}

#[tokio::test]
async fn there_are_no_partial_results() {
    let (_folder, index) = index(2);
    let leaves = Leaves::start(index.directory(), 1, 1, "det:0ms").await;
    let live = leaves.addresses().concat();
    let root = Running::root(vec![live.clone(), vec![dead_address().await]], "laedge").await;
    let got = get(root.address, "/search?q=word").await;
    assert_eq!((got.status, got.header("retry-after")), (503, Some("1")));
    let error: ShardError = got.json();
    assert_eq!((error.shard, error.why.is_empty()), (1, false));
    assert!(error.error.contains("shard 1"), "{error:?}");
    // A result from the wrong shard is also rejected.
    let root = Running::root(vec![live.clone(), live], "laedge").await;
    let error: ShardError = get(root.address, "/search?q=word").await.json();
    assert!(error.shard == 1 && error.why.contains("serves shard 0"), "{error:?}");
}

#[tokio::test]
async fn bad_queries_reach_no_leaf() {
    let root = Running::root(vec![vec![dead_address().await]], "psq").await;
    let mut client = Client::connect(root.address).await;
    for (target, status) in
        [("/search", 400), ("/search?q=%22open", 400), ("/search?q=a&k=0", 400), ("/x", 404)]
    {
        assert_eq!(client.get(target, &[]).await.status, status, "{target}");
    }
    assert_eq!(client.get("/health", &[]).await.status, 200);
}

#[tokio::test]
async fn a_client_that_goes_away_abandons_all_shards() {
    let (_folder, index) = index(2);
    let leaves = Leaves::start(index.directory(), 2, 2, "det:1min").await;
    let root = Running::root(leaves.addresses(), "laedge:cc").await;
    let gone = search(root.address, "/search?q=word");
    for leaf in leaves.0.iter().flatten() {
        stats_until(leaf.address, |stats| stats.busy == 1).await;
    }
    gone.abort();
    for leaf in leaves.0.iter().flatten() {
        let stats = stats_until(leaf.address, |stats| stats.busy == 0).await;
        assert_eq!(stats.served, 0);
    }
}

#[tokio::test]
async fn the_query_key_reaches_the_leaves() {
    let (_folder, index) = index(1);
    let mut config = leaf_config(index.directory(), 0, 0);
    config.hiccup = Some("0.5:1ms".parse().expect("a hiccup"));
    // Two leaves with the same configuration draw the same values for the same executions. One leaf
    // is queried directly, and the other through the root.
    let (twin, leaf) = (Running::leaf(config.clone()).await, Running::leaf(config).await);
    let root = Running::root(vec![vec![leaf.address]], "psq").await;
    let (mut direct, mut client) =
        (Client::connect(twin.address).await, Client::connect(root.address).await);
    let mut behind = Client::connect(leaf.address).await;
    let mut hits = 0;
    for number in 0..24 {
        let (target, key) = (format!("/search?q=word&k={}", number % 3 + 1), number.to_string());
        // If a request has no key, its target is used as the key, so the leaf must receive the
        // target unchanged.
        let headers = &[("x-curtail-query", key.as_str())][..usize::from(number < 16)];
        let struck = direct.get(&target, headers).await.timing("hiccup").is_some();
        hits += u64::from(struck);
        let before: LeafStats = behind.get("/stats", &[]).await.json();
        assert_eq!(client.get(&target, headers).await.status, 200);
        let after: LeafStats = behind.get("/stats", &[]).await.json();
        assert_eq!(after.hiccups - before.hiccups, u64::from(struck), "query {number}");
    }
    assert!((4..=20).contains(&hits), "{hits}");
}

#[tokio::test]
async fn impossible_roots_are_not_started() {
    let config = |shards, policy, slots| RootConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        shards,
        policy: Policy::parse(policy, None).expect("a policy"),
        limits: Limits::default(),
        slots,
        seed: 0,
    };
    let some: SocketAddr = ([127, 0, 0, 1], 1).into();
    for (config, word) in [
        (config(vec![], "psq", 1), "there are no shards"),
        (config(vec![vec![some], vec![]], "psq", 1), "shard 1: "),
        (config(vec![vec![some]], "psq", 0), "0 slots"),
        (config(vec![vec![some]], "laedge:cc", 1), "cancel"),
    ] {
        let error = root_server::bind(config).await.expect_err(word).to_string();
        assert!(error.contains(word), "{error}");
    }
}
