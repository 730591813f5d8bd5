//! Tests of the pace: closed loops, changing rates, and the end of a run.

use crate::common::{
    MS, Server, answer, echo, measure, next_head, observe, plan_for, steady, unused,
};
use curtail_load::{Arrivals, Extent, Invalid, Pace, Precision, Profile};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_loop_sends_one_request_per_response() {
    let server = Server::start(echo).await;
    for (threads, connections) in [(1, 4), (2, 5)] {
        let mut plan = server.plan(1.0, 501);
        (plan.pace, plan.threads, plan.connections) = (Pace::Closed, threads, connections);
        let mut indexes = Vec::new();
        let report = observe(&plan, |answer| indexes.push(answer.index)).await;
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
    let report = observe(&plan, |answer| intended.push(answer.intended_ns)).await;
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
    let tried = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |stream| {
        let fine = tried.fetch_add(1, std::sync::atomic::Ordering::SeqCst) >= 3;
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
            of_run.push((answer.index, answer.intended_ns));
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
    let report = observe(&plan, |answer| intended.push(answer.intended_ns)).await;
    let slow = intended.iter().filter(|at| **at < 200 * MS).count();
    assert_eq!((slow, intended.len()), (20, 320));
    assert_eq!(report.offered_rate, Some(640.0));
    assert!(report.arrival_test.is_none(), "equal gaps are not Poisson");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_ends_only_when_its_percentiles_are_precise_enough() {
    let server = Server::start(steady).await;
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
    let served = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let server = Server::start(move |mut stream| {
        let served = std::sync::Arc::clone(&served);
        async move {
            while next_head(&mut stream).await.is_some() {
                if served.fetch_add(1, std::sync::atomic::Ordering::SeqCst) >= 100 {
                    return;
                }
                answer(&mut stream, 200, "").await;
            }
        }
    })
    .await;
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
