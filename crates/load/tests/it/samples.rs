//! Tests of the data that the observers of a run receive: the latencies of each interval, and every
//! request.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use crate::common::{MS, Server, answer, echo, next_head, plan_for, unused};
use curtail_load::{Extent, Histogram, Pace, Sample, run_sampled};
use tokio::sync::Notify;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_intervals_add_up_to_the_report_count_by_count() {
    let server = Server::start(echo).await;
    let mut plan = server.plan(400.0, 700);
    plan.warmup_ns = 100 * MS;
    plan.threads = 2;
    let (mut sum, mut ends) = (None::<Histogram<u64>>, vec![0]);
    let (mut samples, mut looks) = (Vec::<Sample>::new(), 0);
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
        of_samples.record(sample.done_ns - sample.intended_ns).unwrap();
    }
    assert_eq!(of_samples, report.histogram, "both report the same requests");
}

#[tokio::test]
async fn a_sample_has_the_times_of_its_request_in_order() {
    let server = Server::start(|mut stream| async move {
        while next_head(&mut stream).await.is_some() {
            answer(&mut stream, 404, "gone").await;
        }
    })
    .await;
    let mut samples = Vec::new();
    let plan = server.plan(500.0, 30);
    let observe = |sample: &Sample| samples.push(sample.clone());
    run_sampled(&plan, pending(), |_| {}, observe).await.unwrap();
    samples.sort_by_key(|sample| sample.index);
    assert_eq!(samples.len(), 30);
    for (place, sample) in samples.iter().enumerate() {
        assert_eq!((sample.index, sample.intended_ns), (place as u64, place as u64 * 2 * MS));
        let sent_ns = sample.sent_ns.expect("it was sent");
        let times = [sample.intended_ns, sample.taken_ns, sent_ns, sample.done_ns];
        assert!(times.is_sorted(), "{sample:?}");
        assert_eq!((sample.ending(), sample.good, sample.body_bytes), ("404".to_owned(), false, 4));
        assert_eq!((sample.kernel_sent_ns, sample.kernel_received_ns), (None, None));
    }
}

#[tokio::test]
async fn a_failed_request_is_a_sample_with_its_kind_of_failure() {
    let closing = Server::start(|mut stream| async move { drop(next_head(&mut stream).await) });
    let closing = closing.await;
    let unused_address = unused().await;
    let silent =
        Server::start(|mut stream| async move { while next_head(&mut stream).await.is_some() {} });
    let silent = silent.await;
    for (address, ending) in
        [(closing.address, "reset"), (unused_address, "connect"), (silent.address, "timeout")]
    {
        let mut plan = plan_for(address, 500.0, 5);
        plan.timeout_ns = 50 * MS;
        let mut endings = Vec::new();
        let observe = |sample: &Sample| endings.push((sample.ending(), sample.good));
        run_sampled(&plan, pending(), |_| {}, observe).await.unwrap();
        assert_eq!(endings, vec![(ending.to_owned(), false); 5]);
    }
}

/// Starts a run, leaves it unpolled while the server responds to `requests` requests, and drops it.
async fn dropped_after(requests: usize) {
    let (served, reached) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (count, notify) = (Arc::clone(&served), Arc::clone(&reached));
    let server = Server::start(move |mut stream| {
        let (count, notify) = (Arc::clone(&count), Arc::clone(&notify));
        async move {
            while next_head(&mut stream).await.is_some() {
                answer(&mut stream, 200, "").await;
                count.fetch_add(1, Ordering::Relaxed);
                notify.notify_one();
            }
        }
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
