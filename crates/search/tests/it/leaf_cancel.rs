//! Tests what a leaf does with a query after the client disconnects.

use crate::net::{LONG, MS, Running, distribution, search, stats_until};
use curtail_search::leaf_server::Cancel;
use tokio::time::{Instant, timeout};

#[tokio::test]
async fn with_honor_a_disconnect_frees_the_slot_or_the_place_in_the_queue() {
    let leaf = Running::alone(|config| config.service_time = Some(distribution("det:1min"))).await;
    let runs = search(leaf.address, "/search?q=word");
    stats_until(leaf.address, |stats| stats.busy == 1).await;
    let waits = search(leaf.address, "/search?q=word");
    stats_until(leaf.address, |stats| stats.waiting == 1).await;

    let next = search(leaf.address, "/search?q=word");
    stats_until(leaf.address, |stats| stats.waiting == 2).await;

    waits.abort();
    let stats = stats_until(leaf.address, |stats| stats.waiting == 1).await;
    assert_eq!((stats.busy, stats.served), (1, 0), "the first one runs on");
    runs.abort();
    let stats = stats_until(leaf.address, |stats| stats.waiting == 0).await;
    assert_eq!((stats.busy, stats.served), (1, 0), "the slot goes to the next");
    next.abort();
    let stats = stats_until(leaf.address, |stats| stats.busy == 0).await;
    assert_eq!((stats.served, stats.waiting), (0, 0));
    stats_until(leaf.address, |stats| stats.cancelled == 3).await;
}

#[tokio::test]
async fn with_ignore_a_disconnect_keeps_the_slot_to_the_end() {
    let leaf = Running::alone(|config| {
        (config.service_time, config.cancel) = (Some(distribution("det:200ms")), Cancel::Ignore);
    })
    .await;
    let start = Instant::now();
    let gone = search(leaf.address, "/search?q=word");
    stats_until(leaf.address, |stats| stats.busy == 1).await;
    gone.abort();
    let next = search(leaf.address, "/search?q=word");
    let stats = stats_until(leaf.address, |stats| {
        assert!(stats.busy == 1 || stats.served > 0, "it holds the slot: {stats:?}");
        stats.served > 0
    });
    assert_eq!(stats.await.cancelled, 0);
    assert!(start.elapsed() >= 200 * MS);
    let got = timeout(LONG, next).await.expect("in time").expect("no panic");
    assert_eq!(got.status, 200);
    assert!(start.elapsed() >= 400 * MS, "the next one had to wait");
}
