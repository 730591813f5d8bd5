//! Tests of the measurements and of the pace, against servers on loopback. They run in real time, and
//! their assertions also hold on a slow machine.

use std::future::pending;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use curtail_load::{
    Arrivals, Extent, Invalid, Limit, Outcome, Pace, Precision, Profile, QueryOrder, run,
    run_observed, run_sampled,
};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::oneshot;

use crate::common::{
    FINE, MS, STEADY, Server, Then, answer, echo, measure, next_head, observe, plan_for, unused,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stall_shows_in_the_corrected_latency_only() {
    let stall = Duration::from_millis(200);
    let server =
        Server::each(move |number, _| if number == 300 { Then::Late(stall) } else { FINE }).await;
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
            assert_eq!(answer.body_bytes(), answer.slot.query as u64 + 1);
            assert!(answer.head().unwrap().header("content-length").is_some());
            assert!(answer.latency_ns() >= answer.uncorrected_ns());
            sent.push(answer.slot);
        })
        .await;
        assert_eq!((report.requests, sent.len()), (200, 200), "{report:?}");
        sent.sort_unstable_by_key(|slot| slot.index);
        runs.push(sent);
    }
    assert!(runs[0][0].index > 0, "the warm-up is not reported");
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
    let on_response = |_: &_, _| {
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
    let stalled = Arc::new(tokio::sync::Notify::new());
    let notify = Arc::clone(&stalled);
    let server = Server::each(move |number, _| {
        if number < 100 {
            return FINE;
        }
        notify.notify_one();
        Then::Silence
    })
    .await;
    let mut plan = server.plan(1_000.0, 0);
    (plan.extent, plan.connections) = (Extent::Duration { ns: 3_600_000 * MS }, 4);
    let cancel = async {
        stalled.notified().await;
        tokio::time::sleep(Duration::from_millis(300)).await; // tidy: real time
    };
    let mut samples = Vec::new();
    let see = |sample: &Outcome| samples.push(sample.ending());
    let report = run_sampled(&plan, cancel, |_| {}, see).await.unwrap();
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
    let server = Server::each(|_, _| Then::Silence).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_loop_sends_one_request_per_response() {
    let server = Server::start(echo).await;
    for (threads, connections) in [(1, 4), (2, 5)] {
        let mut plan = server.plan(1.0, 501);
        (plan.pace, plan.threads, plan.connections) = (Pace::Closed, threads, connections);
        let mut indexes = Vec::new();
        let report = observe(&plan, |answer| indexes.push(answer.slot.index)).await;
        assert_eq!((report.requests, report.errors.total()), (501, 0));
        assert!(report.closed_loop && report.offered_rate.is_none());
        assert_eq!(report.connections_opened, connections as u64);
        indexes.sort_unstable();
        indexes.dedup();
        assert_eq!(indexes.len(), 501, "no two have one index");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_loop_ends_after_its_duration() {
    let server = Server::start(echo).await;
    let mut plan = server.plan(1.0, 0);
    (plan.pace, plan.connections) = (Pace::Closed, 2);
    (plan.extent, plan.warmup_ns) = (Extent::Duration { ns: 200 * MS }, 50 * MS);
    let mut intended = Vec::new();
    let report = observe(&plan, |answer| intended.push(answer.slot.at_ns)).await;
    assert!(report.requests > 2, "{}", report.requests);
    assert!(intended.iter().all(|at| (50 * MS..250 * MS).contains(at)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_loop_backs_off_if_the_server_is_down() {
    let mut plan = plan_for(unused().await, 1.0, 0);
    (plan.pace, plan.connections) = (Pace::Closed, 4);
    plan.extent = Extent::Duration { ns: 400 * MS };
    let report = measure(&plan).await;
    assert_eq!(report.requests, report.errors.connect);
    // Each connection tries at 0, 1, 3, 7, 15, 31, 63, 127, 227 and 327 ms, or later.
    assert!((8..=40).contains(&report.requests), "{}", report.requests);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_loop_resumes_when_the_server_responds_again() {
    let tried = AtomicUsize::new(0);
    let server = Server::start(move |stream| {
        let fine = tried.fetch_add(1, Ordering::SeqCst) >= 3;
        async move {
            if fine {
                echo(stream).await;
            }
        }
    })
    .await;
    let mut plan = server.plan(1.0, 200);
    (plan.pace, plan.connections) = (Pace::Closed, 1);
    let report = measure(&plan).await;
    assert_eq!((report.errors.reset, report.histogram.len(), server.accepted()), (3, 197, 4));
    let failures = report.failures.unwrap();
    let pause = failures.last_at_ns - failures.first_at_ns;
    // The backoffs are 1 ms and 2 ms.
    assert!(pause >= 3 * MS, "{pause}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_share_one_schedule() {
    let server = Server::start(echo).await;
    let mut runs = Vec::new();
    for threads in [1, 3] {
        let mut plan = server.plan(2_000.0, 300);
        (plan.pace, plan.threads, plan.connections) = (Pace::poisson(2_000.0), threads, 9);
        let mut of_run = Vec::new();
        let report = observe(&plan, |answer| {
            of_run.push((answer.slot.index, answer.slot.at_ns));
        })
        .await;
        assert_eq!((report.requests, report.histogram.len(), report.unobserved), (300, 300, 0));
        of_run.sort_unstable();
        runs.push(of_run);
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_in_steps_is_followed() {
    let server = Server::start(echo).await;
    let mut plan = server.plan(1.0, 0);
    let profile: Profile = "100:200ms,1000:300ms".parse().unwrap();
    plan.extent = Extent::Duration { ns: profile.own_ns().unwrap() };
    plan.pace = Pace::Open { profile, arrivals: Arrivals::Constant };
    let mut intended = Vec::new();
    let report = observe(&plan, |answer| intended.push(answer.slot.at_ns)).await;
    let slow = intended.iter().filter(|at| **at < 200 * MS).count();
    assert_eq!((slow, intended.len()), (20, 320));
    assert_eq!(report.offered_rate, Some(640.0));
    assert!(report.arrival_test.is_none(), "equal gaps are not Poisson");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_ends_only_when_its_percentiles_are_precise_enough() {
    let server = Server::each(|_, _| Then::Late(STEADY)).await;
    let mut plan = server.plan(500.0, 0);
    plan.extent = Extent::Duration { ns: 60_000 * MS };
    plan.until = Some(Precision { relative: 0.9, per_mille: vec![500] });
    let report = measure(&plan).await;
    assert!(report.requests < 30_000 && !report.partial);
    assert_eq!(
        report.requests,
        report.histogram.len(),
        "every request that was sent has a response"
    );
    let [low, high] = report.latency_ci95_ns.p50.unwrap();
    assert!(low <= report.latency_ns.p50.unwrap() && report.latency_ns.p50.unwrap() <= high);

    plan.extent = Extent::Requests(200);
    plan.until = Some(Precision { relative: 0.0001, per_mille: vec![990] });
    let report = measure(&plan).await;
    let unsure = Invalid::NotSure { per_mille: 990, found: None, asked: 0.0001 };
    assert!(report.invalid_because.contains(&unsure), "{:?}", report.invalid_because);
    assert_eq!(report.requests, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_failures_of_a_server_that_dies_are_reported_with_times_and_count() {
    let server = Server::each(|number, _| if number >= 100 { Then::Close } else { FINE }).await;
    let report = measure(&server.plan(1_000.0, 150)).await;
    assert_eq!((report.histogram.len(), report.errors.reset), (100, 50));
    let failures = report.failures.unwrap();
    assert_eq!(failures.since_last_good, 50);
    assert!(failures.last_good_at_ns.unwrap() >= 90 * MS);
    assert!(failures.last_at_ns >= failures.first_at_ns && failures.last_at_ns >= 149 * MS);
    assert!(
        failures.first.contains("closed the connection before it responded"),
        "{}",
        failures.first
    );
}
