//! What is counted besides latencies: busy time, copies, waste, queues.

use crate::common::{assert_close, mean, run, run_one, sharp};
use curtail_sim::Parameters;

/// The busy share of n queries has a standard error of ρ·√(2/n), for Poisson arrivals and
/// exponential service; with n = 720,000 that is 0.17 %. Six of them: one false alarm in 10⁸ seeds.
const BUSY: f64 = 0.01;

#[test]
fn servers_are_busy_for_what_was_offered() {
    for (replicas, slots) in [(1, 1), (3, 1), (2, 2)] {
        let parameters = Parameters { replicas, slots, utilization: 0.4, ..sharp() };
        let [psq, naive] = &run(&parameters, &["psq", "naive"])[..] else { panic!("two") };
        let busy = psq.utilization.busy.expect("it took time");
        assert_close("psq is busy", busy, 0.4, BUSY);
        assert_eq!(psq.utilization.offered, 0.4);
        assert_eq!(psq.copies_per_query, Some(1.0));
        assert_eq!(psq.hedged_fraction, Some(0.0));
        let wasted = psq.wasted_fraction.expect("it was busy");
        assert!(wasted.abs() < 1e-9, "every copy answers: {wasted}");
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
    // Both copies of a query take the same time, so the loser costs as much as the winner. Only
    // copies that are cut by the ends of the measured time differ: a few in 36,000.
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
    // The squared coefficient of variation of S is 1.44: the error is a little larger.
    assert_close("busy", psq.utilization.busy.expect("it took time"), 0.6, 1.3 * BUSY);
}

#[test]
fn the_queue_is_as_long_as_littles_law_says() {
    // M/M/1: ρ²/(1 − ρ) wait on average, and each for ρ/(1 − ρ). Everything but service is waiting.
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
