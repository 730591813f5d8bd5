//! Tests of the measurements, against servers on loopback. They run in real time, and their
//! assertions also hold on a slow machine.

use std::future::pending;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{MS, Server, answer, echo, measure, next_head, observe};
use curtail_load::{Extent, Invalid, Limit, Pace, QueryOrder, run, run_observed};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::oneshot;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stall_shows_in_the_corrected_latency_only() {
    let served = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |mut stream| {
        let served = Arc::clone(&served);
        async move {
            while next_head(&mut stream).await.is_some() {
                if served.fetch_add(1, Ordering::Relaxed) == 300 {
                    tokio::time::sleep(Duration::from_millis(200)).await; // tidy: real time
                }
                answer(&mut stream, 200, "").await;
            }
        }
    })
    .await;
    let mut plan = server.plan(1_000.0, 1_500);
    // There is only one connection, so requests wait behind the stalled request.
    plan.connections = 1;
    let report = measure(&plan).await;

    assert_eq!((report.requests, report.errors.total()), (1_500, 0));
    assert_eq!(report.histogram.len(), 1_500);
    let (corrected, uncorrected) = (report.latency_ns.p99, report.uncorrected_ns.p99);
    assert!(corrected.unwrap() > 150 * MS, "{report:?}");
    assert!(uncorrected.unwrap() < 100 * MS, "{report:?}");
    assert!(report.uncorrected_ns.max.unwrap() >= 199 * MS, "{report:?}");
    // Requests waited for the only connection, so the generator was the limit, not the server.
    let warning = report.warning().unwrap();
    assert!(warning.contains("all 1 connections busy"), "{warning}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_sent_regardless_of_earlier_ones() {
    // Sends no response until all requests have arrived.
    let (arrived, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
    let server = Server::start(move |mut stream| {
        let (arrived, all) = (Arc::clone(&arrived), Arc::clone(&all));
        async move {
            while next_head(&mut stream).await.is_some() {
                let go = all.notified();
                if arrived.fetch_add(1, Ordering::SeqCst) + 1 == 50 {
                    all.notify_waiters();
                } else {
                    go.await;
                }
                answer(&mut stream, 200, "").await;
            }
        }
    })
    .await;
    let report = measure(&server.plan(1_000.0, 50)).await;
    assert_eq!((report.requests, report.histogram.len()), (50, 50), "{report:?}");
    assert_eq!(server.accepted(), 50);
}

#[tokio::test]
async fn the_same_plan_sends_the_same_requests() {
    let server = Server::start(echo).await;
    let mut plan = server.plan(2_000.0, 200);
    plan.pace = Pace::poisson(2_000.0);
    plan.queries = (0..20).map(|i| format!("/{}", "x".repeat(i))).collect();
    plan.order = QueryOrder::Random;
    plan.warmup_ns = 20 * MS;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let mut sent = Vec::new();
        let report = observe(&plan, |answer| {
            // The server echoes the target, so its length identifies the query that was sent.
            assert_eq!(answer.body_bytes, answer.query as u64 + 1);
            assert!(answer.head.as_ref().unwrap().header("content-length").is_some());
            assert!(answer.latency_ns >= answer.uncorrected_ns);
            sent.push((answer.index, answer.intended_ns, answer.query));
        })
        .await;
        assert_eq!((report.requests, sent.len()), (200, 200), "{report:?}");
        sent.sort_unstable();
        runs.push(sent);
    }
    assert!(runs[0][0].0 > 0, "the warm-up is not reported");
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_reopened() {
    let server = Server::start(async |mut stream| {
        if next_head(&mut stream).await.is_some() {
            answer(&mut stream, 200, "").await;
            let _ = stream.shutdown().await;
        }
    })
    .await;
    let mut plan = server.plan(20.0, 5);
    plan.connections = 1;
    let report = measure(&plan).await;
    assert_eq!((report.errors.total(), server.accepted()), (0, 5), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_reported_twice_per_second() {
    let server = Server::start(echo).await;
    let mut snapshots = Vec::new();
    let mut plan = server.plan(200.0, 0);
    plan.extent = Extent::Duration { ns: 1_200 * MS };
    plan.warmup_ns = 600 * MS;
    let report = run(&plan, pending(), |seen| snapshots.push(seen.clone())).await.unwrap();
    assert!((1..=4).contains(&snapshots.len()), "{snapshots:?}");
    assert!(snapshots.is_sorted_by_key(|seen| (seen.elapsed_ns, seen.sent, seen.answered)));
    assert!(snapshots.iter().all(|seen| seen.sent >= seen.answered + seen.errors));
    assert_eq!(report.requests, 240);
}

#[tokio::test]
async fn a_run_that_is_cut_short_reports_its_measurements() {
    let server = Server::start(echo).await;
    let mut plan = server.plan(500.0, 0);
    plan.extent = Extent::Duration { ns: 3_600_000 * MS };
    let (cut, cancelled) = oneshot::channel();
    let (mut cut, mut answers) = (Some(cut), 0);
    let cancel = async {
        let _ = cancelled.await;
    };
    let on_response = |_: &_| {
        answers += 1;
        if answers == 100 {
            let _ = cut.take().unwrap().send(());
        }
        ControlFlow::Continue(())
    };
    let report = run_observed(&plan, cancel, |_| {}, on_response).await.unwrap();
    assert!(report.partial);
    // Responses that arrived before the run was cut short also count.
    assert!(answers >= 100);
    assert_eq!(
        (report.histogram.len(), report.errors.total()),
        (answers, report.errors.unfinished())
    );
    assert_eq!(report.requests, answers + report.errors.unfinished());
    assert_eq!(serde_json::to_value(&report).unwrap()["partial"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_cut_while_the_server_stalls_reports_every_request_that_was_due() {
    // The server responds only to the first 100 requests.
    let (served, stalled) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
    let notify = Arc::clone(&stalled);
    let server = Server::start(move |mut stream| {
        let (served, notify) = (Arc::clone(&served), Arc::clone(&notify));
        async move {
            while next_head(&mut stream).await.is_some() {
                if served.fetch_add(1, Ordering::SeqCst) >= 100 {
                    notify.notify_one();
                    pending::<()>().await;
                }
                answer(&mut stream, 200, "").await;
            }
        }
    })
    .await;
    let mut plan = server.plan(1_000.0, 0);
    (plan.extent, plan.connections) = (Extent::Duration { ns: 3_600_000 * MS }, 4);
    let cancel = async {
        stalled.notified().await;
        tokio::time::sleep(Duration::from_millis(300)).await; // tidy: real time
    };
    let mut samples = Vec::new();
    let see = |sample: &curtail_load::Sample| samples.push(sample.ending());
    let report = curtail_load::run_sampled(&plan, cancel, |_| {}, see).await.unwrap();
    let errors = report.errors;
    assert_eq!((report.histogram.len(), errors.in_flight), (100, 4), "{report:?}");
    // One request is due every millisecond. The run continues for 300 ms after the first 100
    // responses.
    assert!(errors.overdue >= 290, "{errors:?}");
    assert_eq!((report.requests, report.sent), (104 + errors.overdue, 104));
    // Most requests had no response, so most figures come from unfinished requests.
    assert!(report.latency_ns.p90.unwrap() > 150 * MS, "{:?}", report.latency_ns);
    assert!(report.latency_at_least.contains(&"p90"));
    let unfinished = |reason: &Invalid| matches!(reason, Invalid::Unfinished { in_flight: 4, .. });
    assert!(report.invalid_because.iter().any(unfinished), "{:?}", report.invalid_because);
    let of = |kind: &str| samples.iter().filter(|sample| *sample == kind).count() as u64;
    assert_eq!((of("200"), of("in_flight"), of("overdue")), (100, 4, errors.overdue));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_beyond_the_backlog_are_dropped_and_make_the_run_invalid() {
    let server = Server::start(async |mut stream| {
        next_head(&mut stream).await;
        pending::<()>().await;
    })
    .await;
    let mut plan = server.plan(1_000.0, 20);
    (plan.connections, plan.backlog, plan.timeout_ns) = (1, 2, 1_000 * MS);
    let report = measure(&plan).await;
    assert_eq!((report.errors.timeout, report.errors.dropped), (3, 17), "{report:?}");
    assert_eq!(report.requests, 20);
    // With more connections, requests would still have to wait for the server.
    let limited_by = Limit::Server { few_ns: None, all_ns: None };
    let dropped = Invalid::Dropped { count: 17, backlog: 2, limited_by };
    assert!(report.invalid_because.contains(&dropped), "{:?}", report.invalid_because);
    assert!(!report.valid);
}
