//! Checks measurements other than latencies: busy time, copies, waste and queues.

use crate::common::{assert_close, mean, run, run_one, sharp};
use curtail_sim::Parameters;

/// The tolerance for the busy share. For n queries with Poisson arrivals and exponential service,
/// its standard error is ρ·√(2/n), which is 0.17 % with n = 720,000. The tolerance is six standard
/// errors, so the test fails by chance for one seed in 10⁸.
const BUSY: f64 = 0.01;

#[test]
fn busy_time_equals_the_offered_load() {
    for (replicas, slots) in [(1, 1), (3, 1), (2, 2)] {
        let parameters = Parameters { replicas, slots, utilization: 0.4, ..sharp() };
        let [psq, naive] = &run(&parameters, &["psq", "naive"])[..] else { panic!("two") };
        let busy = psq.utilization.busy.expect("it took time");
        assert_close("psq is busy", busy, 0.4, BUSY);
        assert_eq!(psq.utilization.offered, 0.4);
        assert_eq!(psq.copies_per_query, Some(1.0));
        assert_eq!(psq.hedged_fraction, Some(0.0));
        let wasted = psq.wasted_fraction.expect("it was busy");
        assert!(wasted.abs() < 1e-9, "every copy returns a response: {wasted}");
        if replicas > 1 {
            let busy = naive.utilization.busy.expect("it took time");
            assert_close("naive is busy", busy, 0.8, BUSY);
            assert_eq!(naive.copies_per_query, Some(2.0));
            assert_eq!(naive.hedged_fraction, Some(1.0));
        } else {
            assert_eq!(naive.copies_per_query, Some(1.0), "there is no other server");
        }
    }
}

#[test]
fn naive_wastes_half_without_jitter() {
    // Both copies of a query take the same time, so the loser costs as much as the winner. The only
    // difference comes from the few copies (out of 36,000) that span the start or the end of the
    // measured time.
    let parameters = Parameters { replicas: 3, utilization: 0.3, ..sharp() };
    let naive = run_one(&parameters, "naive");
    assert_close("wasted", naive.wasted_fraction.expect("it was busy"), 0.5, 1e-3);
}

#[test]
fn jitter_counts_as_busy() {
    let jitter = Some("bimodal:0.1:5".to_owned());
    let parameters = Parameters { jitter, utilization: 0.4, ..sharp() };
    let psq = run_one(&parameters, "psq");
    assert_close("with jitter", psq.utilization.with_jitter, 0.6, 1e-12);
    // The squared coefficient of variation of S is 1.44, so the error is slightly larger.
    assert_close("busy", psq.utilization.busy.expect("it took time"), 0.6, 1.3 * BUSY);
}

#[test]
fn the_queue_length_follows_littles_law() {
    // In M/M/1, ρ²/(1 − ρ) queries wait on average, and the mean wait is ρ/(1 − ρ). The sojourn is
    // the wait plus the service.
    let parameters = Parameters { utilization: 0.5, ..sharp() };
    let psq = run_one(&parameters, "psq");
    let queue = psq.queue.expect("a stable run");
    assert_close("length", queue.mean_length, 0.5, 0.05);
    assert_close("length by wait", queue.mean_length, queue.mean_wait * 0.5, 1e-9);
    assert_close("wait and service", queue.mean_wait + 1.0, mean(&psq).0, 0.01);
}

#[test]
fn a_query_is_a_request_to_one_shard() {
    let parameters = Parameters { shards: 7, requests: 2_000, replications: 3, ..sharp() };
    let psq = run_one(&parameters, "psq");
    assert_eq!(psq.queries_simulated, 7 * 2_000 * 3);
    assert_eq!(psq.histogram.len(), 1_800 * 3, "the measured requests");
    let (queries, requests) = (psq.query.expect("stable"), psq.request.expect("stable"));
    assert!(queries.mean < requests.mean, "a request waits for the slowest of its queries");
}
