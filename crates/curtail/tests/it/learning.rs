//! A policy that learns does so without further ado, and stops with its service.

use std::time::Duration;

use curtail::{Cancel, Curtail, Query, Timers, outcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// `rescue` used to be inert unless its learner was built, wrapped and run by hand.
#[tokio::test(start_paused = true)]
async fn rescue_learns_by_itself() {
    let copies = Arc::new(AtomicU64::new(0));
    let server = || {
        let copies = Arc::clone(&copies);
        tower::service_fn(move |ms: u64| {
            let stuck = copies.fetch_add(1, Ordering::Relaxed) % 200 == 199;
            async move {
                let ms = ms + if stuck { 300 } else { 0 };
                tokio::time::sleep(Duration::from_millis(ms)).await; // tidy: real time (it is paused)
                Ok::<_, std::io::Error>(ms)
            }
        })
    };
    let service = Curtail::builder()
        .policy("rescue".parse().unwrap())
        .shard("a", [("a0", server()), ("a1", server())])
        .slots(1)
        .cancellation(Cancel::OnDrop)
        .timers(Timers::tokio())
        .classify(outcome::any_response)
        .repeatable(|ms| Some(*ms))
        .build()
        .unwrap();
    let shard = service.shard("a");
    let (mut slowest, mut sent) = (Duration::ZERO, 0);
    for query in 0..4_000_u64 {
        let answer = shard.query(Query::idempotent(4 + query * 5 % 8)).await.unwrap();
        (slowest, sent) = (slowest.max(answer.took), sent + answer.copies);
    }
    assert!(slowest < Duration::from_millis(60), "a stuck query was not rescued: {slowest:?}");
    assert!(sent > 4_010, "{sent} copies");
    let alive = Arc::strong_count(&copies);
    drop((service, shard));
    tokio::time::sleep(Duration::from_secs(1)).await; // tidy: real time (it is paused)
    assert!(Arc::strong_count(&copies) < alive, "the learner keeps the service alive");
}
