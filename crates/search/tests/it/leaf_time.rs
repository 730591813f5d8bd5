//! Tests stretched service times: the order of queries, the slots, and what the draws depend on.

use std::net::SocketAddr;
use std::time::Duration;

use crate::net::{Client, Got, MS, Running, distribution, get, search, stats_until};
use curtail_search::leaf_server::{Hiccup, LeafStats};
use tokio::time::Instant;

/// Starts several searches. Each search starts once the previous one is waiting or running.
async fn line_up(address: SocketAddr, slots: u32, count: u32) -> Vec<(Got, Duration)> {
    let start = Instant::now();
    let mut waits = Vec::new();
    for sent in 1..=count {
        let got = search(address, "/search?q=word");
        waits.push(tokio::spawn(async move { (got.await.expect("no panic"), start.elapsed()) }));
        // Some searches may have ended already, if this machine is slow.
        let placed = |stats: &LeafStats| stats.busy + stats.waiting + stats.served as u32 >= sent;
        let stats = stats_until(address, placed).await;
        assert!(stats.busy <= slots, "never more than the slots: {stats:?}");
    }
    let mut ends = Vec::new();
    for wait in waits {
        ends.push(wait.await.expect("no panic"));
    }
    ends
}

#[tokio::test]
async fn first_come_first_served() {
    let leaf = Running::alone(|config| config.service_time = Some(distribution("det:40ms"))).await;
    for (turn, (got, end)) in (1..).zip(line_up(leaf.address, 1, 5).await) {
        assert_eq!(got.status, 200);
        assert!(end >= 40 * MS * turn, "number {turn} ended after {end:?}");
        let waited = got.timing("queue").expect("a queue time");
        assert_eq!(got.header("x-curtail-stretched"), Some("1"));
        assert!(turn == 1 || waited > 0.0);
    }
}

#[tokio::test]
async fn each_slot_serves_one_query_at_a_time() {
    let leaf = Running::alone(|config| {
        (config.service_time, config.slots) = (Some(distribution("det:50ms")), 2);
    })
    .await;
    let ends = line_up(leaf.address, 2, 6).await;
    for (turn, (_, end)) in (0..).zip(&ends) {
        assert!(*end >= 50 * MS * (turn / 2 + 1), "number {turn} ended after {end:?}");
    }
    let stats: LeafStats = get(leaf.address, "/stats").await.json();
    assert_eq!((stats.served, stats.busy, stats.slots, stats.stretched), (6, 0, 2, true));
    let service = stats.real_time_ns + stats.stretched_time_ns;
    assert!(u128::from(service) >= 6 * 50 * MS.as_nanos(), "{stats:?}");
    let late = u128::from(service) - 6 * 50 * MS.as_nanos();
    assert_eq!((u128::from(stats.late_time_ns), stats.hiccup_time_ns), (late, 0));
}

#[tokio::test]
async fn the_key_takes_precedence_over_the_target() {
    let leaf =
        Running::alone(|config| config.service_time = Some(distribution("uniform:1ms:20ms"))).await;
    let mut client = Client::connect(leaf.address).await;
    let mut own = Vec::new();
    for target in ["/search?q=word", "/search?q=number&k=3"] {
        let got = client.get(target, &[("x-curtail-query", "7")]).await;
        own.push(got.timing("own").expect("it was drawn"));
    }
    // A target may include a host, as in requests to proxies. The draws do not depend on the host.
    let host = format!("http://{}/search?q=word", leaf.address);
    for target in ["/search?q=word", &host] {
        own.push(client.get(target, &[]).await.timing("own").expect("it was drawn"));
    }
    assert_eq!((own[0], own[2]), (own[1], own[3]));
    assert_ne!(own[0], own[2]);
}

#[tokio::test]
async fn hiccups_take_their_time_and_are_counted() {
    let leaf = Running::alone(|config| {
        config.hiccup = Some(Hiccup { probability: 0.5, duration_ns: 3_000_000 });
    })
    .await;
    let mut client = Client::connect(leaf.address).await;
    let mut hits = 0;
    for number in 0..32 {
        let start = Instant::now();
        let got = client.get(&format!("/search?q=word+{number}"), &[]).await;
        if let Some(struck) = got.timing("hiccup") {
            assert!(struck == 3.0 && start.elapsed() >= 3 * MS);
            assert_eq!(got.header("x-curtail-stretched"), Some("1"));
            hits += 1;
        }
    }
    let stats: LeafStats = client.get("/stats", &[]).await.json();
    assert!(stats.hiccups == hits && (1..32).contains(&hits), "{stats:?}");
    assert!(stats.hiccup_time_ns >= stats.hiccups * 3_000_000, "{stats:?}");
    assert_eq!(stats.late_time_ns, 0, "a query that is not stretched is never late");
}

#[tokio::test]
async fn a_slow_period_follows_a_fast_one() {
    // The first period begins when the service of the first query begins, which is between two times. If
    // these are far apart, no query is certainly in a slow period.
    let (_leaf, mut client, before, after) = loop {
        let leaf = Running::alone(|config| {
            config.service_time = Some(distribution("det:5ms"));
            config.slow = Some("4:100ms".parse().expect("a slowdown"));
        })
        .await;
        let mut client = Client::connect(leaf.address).await;
        let before = Instant::now();
        client.get("/search?q=word&n=0", &[]).await;
        let after = Instant::now();
        if after - before < 40 * MS {
            break (leaf, client, before, after);
        }
    };
    let (mut slow, mut next) = (0, 1);
    let period = |at: Instant, from: Instant| at.duration_since(from).as_millis() / 100;
    while slow < 3 {
        let start = Instant::now();
        let got = client.get(&format!("/search?q=word&n={next}"), &[]).await;
        let end = Instant::now();
        next += 1;
        let took = end - start;
        assert!(took >= 5 * MS && got.timing("own") == Some(5.0), "{took:?}");
        // Checks only queries that begin and end in the same period, for both the earliest and the
        // latest possible start of the first period.
        let first = period(start, after);
        if first == period(end, before) && first % 2 == 1 {
            assert!(took >= 20 * MS, "{took:?}");
            slow += 1;
        }
    }
    let stats: LeafStats = client.get("/stats", &[]).await.json();
    // At least the first query was not slow.
    let own_ns = stats.real_time_ns + stats.stretched_time_ns - stats.late_time_ns;
    assert!(own_ns < next * 20_000_000, "{stats:?}");
}
