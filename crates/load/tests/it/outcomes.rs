//! Tests that failures are counted by kind and excluded from the latencies, and of the data that the
//! observers of a run receive: the latencies of each interval, and every request.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use curtail_load::{Errors, Extent, Histogram, Outcome, Pace, run_sampled};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::common::{
    FINE, MS, Server, Then, answer, echo, measure, next_head, observe, plan_for, say, target,
    unused,
};

/// Fails in the way that the request target specifies.
async fn misbehave(mut stream: TcpStream) {
    while let Some(head) = next_head(&mut stream).await {
        match target(&head) {
            "/ok" => answer(&mut stream, 200, "fine").await,
            "/created" => answer(&mut stream, 201, "").await,
            "/busy" => answer(&mut stream, 503, "").await,
            "/gone" => answer(&mut stream, 404, "no").await,
            "/moved" => answer(&mut stream, 302, "").await,
            "/closed" => return,
            "/reset" => {
                let _ = stream.set_zero_linger();
                return;
            }
            "/half" => {
                return say(&mut stream, "HTTP/1.1 200 \r\ncontent-length: 9\r\n\r\nhal").await;
            }
            "/garbage" => return say(&mut stream, "SSH-2.0-Server\r\n").await,
            "/lengths" => {
                let lengths = "content-length: 0\r\ncontent-length: 1\r\n";
                return say(&mut stream, &format!("HTTP/1.1 200 \r\n{lengths}\r\n")).await;
            }
            _ => pending().await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failure_is_counted_by_kind() {
    let server = Server::start(misbehave).await;
    let mut plan = server.plan(200.0, 44);
    let queries = [
        "/ok", "/created", "/busy", "/gone", "/moved", "/closed", "/reset", "/half", "/garbage",
        "/lengths", "/silent",
    ];
    plan.queries = queries.map(str::to_owned).to_vec();
    plan.timeout_ns = 1_000 * MS;
    let mut statuses = Vec::new();
    let report = observe(&plan, |answer| {
        assert!(answer.slot.query < 5, "{answer:?}");
        statuses.push(answer.status().unwrap());
    })
    .await;
    let errors = Errors {
        connect: 0,
        timeout: 4,
        reset: 12,
        malformed: 8,
        status_5xx: 4,
        status_other: 8,
        ..Errors::default()
    };
    assert_eq!(report.errors, errors, "{report:?}");
    assert_eq!((report.requests, report.histogram.len()), (44, 8));
    // Even requests that failed immediately count as at least the timeout.
    assert_eq!(report.at_least_histogram.count_between(1_000 * MS, u64::MAX), 36);
    assert!(report.uncorrected_ns.max.unwrap() < 1_000 * MS);
    assert!(!report.valid);
    assert!(report.failures.is_some());
    statuses.sort_unstable();
    assert_eq!(statuses, [[200; 4], [201; 4], [302; 4], [404; 4], [503; 4]].concat());
}

#[tokio::test]
async fn failures_to_connect_are_counted() {
    let report = measure(&plan_for(unused().await, 500.0, 10)).await;
    assert_eq!(report.errors, Errors { connect: 10, ..Errors::default() });
    assert_eq!((report.at_least_histogram.len(), report.valid), (10, false));
    assert_eq!(report.uncorrected_ns.max, None);
    assert_eq!(report.connections_opened, 0, "it was only tried");
    assert!(report.failures.unwrap().first.contains("cannot connect"));
}

/// Responds to one request, and closes the connection when the next request arrives. The request
/// and the close cross on the wire.
async fn one_each(mut stream: TcpStream) {
    if next_head(&mut stream).await.is_some() {
        answer(&mut stream, 200, "fine").await;
        next_head(&mut stream).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_crosses_the_close_of_its_connection_is_cut_off() {
    let server = Server::start(one_each).await;
    let mut plan = server.plan(200.0, 20);
    plan.connections = 1;
    let report = measure(&plan).await;
    assert_eq!((report.errors.total(), report.errors.reset, report.sent_again), (10, 10, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_intervals_add_up_to_the_report_count_by_count() {
    let server = Server::start(echo).await;
    let mut plan = server.plan(400.0, 700);
    plan.warmup_ns = 100 * MS;
    plan.threads = 2;
    let (mut sum, mut ends) = (None::<Histogram<u64>>, vec![0]);
    let (mut samples, mut looks) = (Vec::<Outcome>::new(), 0);
    let progress = |seen: &curtail_load::Snapshot| {
        looks += 1;
        assert_eq!(Some(&seen.recent_from_ns), ends.last(), "no time is left out");
        assert!(seen.recent_until_ns >= seen.recent_from_ns);
        ends.push(seen.recent_until_ns);
        match &mut sum {
            Some(sum) => sum.add(&seen.recent).unwrap(),
            None => sum = Some(seen.recent.clone()),
        }
    };
    let report =
        run_sampled(&plan, pending(), progress, |sample| samples.push(sample.clone())).await;
    let report = report.unwrap();

    assert_eq!(sum.as_ref(), Some(&report.histogram));
    assert!(looks >= 2, "once at the end, and before");
    assert_eq!((samples.len() as u64, report.unobserved), (report.requests, 0));
    assert_eq!(report.uncorrected_histogram.len(), report.requests);
    let mut of_samples = Histogram::<u64>::new_from(&report.histogram);
    for sample in &samples {
        of_samples.record(sample.latency_ns()).unwrap();
    }
    assert_eq!(of_samples, report.histogram, "both report the same requests");
}

#[tokio::test]
async fn a_sample_has_the_times_of_its_request_in_order() {
    let server = Server::each(|_, _| Then::Answer(404, "gone")).await;
    let mut samples = Vec::new();
    let plan = server.plan(500.0, 30);
    let observe = |sample: &Outcome| samples.push(sample.clone());
    run_sampled(&plan, pending(), |_| {}, observe).await.unwrap();
    samples.sort_by_key(|sample| sample.slot.index);
    assert_eq!(samples.len(), 30);
    for (place, sample) in samples.iter().enumerate() {
        assert_eq!((sample.slot.index, sample.slot.at_ns), (place as u64, place as u64 * 2 * MS));
        let sent_ns = sample.sent_ns.expect("it was sent");
        let times = [sample.slot.at_ns, sample.taken_ns, sent_ns, sample.done_ns];
        assert!(times.is_sorted(), "{sample:?}");
        assert_eq!(
            (sample.ending(), sample.good(), sample.body_bytes()),
            ("404".to_owned(), false, 4)
        );
        assert_eq!((sample.left_ns, sample.came_ns), (None, None));
    }
}

#[tokio::test]
async fn a_failed_request_is_a_sample_with_its_kind_of_failure() {
    let closing = Server::each(|_, _| Then::Close).await;
    let unused_address = unused().await;
    let silent = Server::each(|_, _| Then::Silence).await;
    for (address, ending) in
        [(closing.address, "reset"), (unused_address, "connect"), (silent.address, "timeout")]
    {
        let mut plan = plan_for(address, 500.0, 5);
        plan.timeout_ns = 50 * MS;
        let mut endings = Vec::new();
        let observe = |sample: &Outcome| endings.push((sample.ending(), sample.good()));
        run_sampled(&plan, pending(), |_| {}, observe).await.unwrap();
        assert_eq!(endings, vec![(ending.to_owned(), false); 5]);
    }
}

/// Starts a run, leaves it unpolled while the server responds to `requests` requests, and drops it.
async fn dropped_after(requests: usize) {
    let (served, reached) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (count, notify) = (Arc::clone(&served), Arc::clone(&reached));
    let server = Server::each(move |number, _| {
        count.store(number, Ordering::Relaxed);
        notify.notify_one();
        FINE
    })
    .await;
    let mut plan = server.plan(1.0, 0);
    (plan.pace, plan.extent) = (Pace::Closed, Extent::Duration { ns: 3_600_000 * MS });
    (plan.threads, plan.connections) = (2, 8);
    let mut run = pin!(run_sampled(&plan, pending(), |_| {}, |_| {}));
    // A single poll starts the threads, because no name has to be resolved.
    let looked = poll_fn(|context| Poll::Ready(run.as_mut().poll(context))).await;
    assert!(looked.is_pending());
    let enough = served.load(Ordering::Relaxed) + requests;
    while served.load(Ordering::Relaxed) < enough {
        reached.notified().await;
    }
}

#[test]
fn dropping_a_run_ends_it_even_if_its_observer_is_slow() {
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        // The number of requests exceeds the capacity of the channel for outcomes.
        runtime.block_on(dropped_after(10_000));
        ended.send(()).unwrap();
    });
    end.recv_timeout(Duration::from_secs(60)).expect("dropping the run ends");
}
