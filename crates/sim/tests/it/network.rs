//! Tests the latency between balancer and replicas, and the cost of stopping copies.

use crate::common::{DIGITS, assert_agrees, assert_close, mean, percentile, run_one, sharp, with};
use curtail_sim::Parameters;

fn unloaded() -> Parameters {
    with(
        "shards = 1, utilization = 0.01, service = 'det:1', arrivals = 'constant', \
         network = 'det:0.25', requests = 1000, replications = 2",
    )
}

#[test]
fn an_unloaded_request_takes_service_and_a_round_trip() {
    for policy in ["psq", "random", "naive", "laedge", "laedge:cc", "delayed:1.2:cc"] {
        let outcome = run_one(&unloaded(), policy);
        assert_eq!(mean(&outcome).0, 1.5, "{policy}");
        assert_close(policy, percentile(&outcome, 50.0).0, 1.5, DIGITS);
        // The time on the way to the server is counted as waiting, because the first copy begins
        // when it arrives there.
        assert_eq!(outcome.queue.expect("stable").mean_wait, 0.25, "{policy}");
    }
}

#[test]
fn a_network_without_latency_changes_nothing() {
    let without = Parameters { network: None, utilization: 0.6, ..sharp() };
    let with = Parameters { network: Some("det:0".to_owned()), ..without.clone() };
    assert_eq!(run_one(&with, "psq").histogram, run_one(&without, "psq").histogram);
}

#[test]
fn a_slot_is_held_for_the_round_trip() {
    // For the balancer, a query occupies its slot for 1 + 2·0.25, so the model is M/D/1 with this
    // service time. If ρ is 0.4 for the servers, it is 0.6 for the slots, and the mean sojourn is
    // 1.5·(1 + 0.6/(2·0.4)).
    let parameters = Parameters {
        utilization: 0.4,
        service: "det:1".to_owned(),
        network: Some("det:0.25".to_owned()),
        ..sharp()
    };
    let psq = run_one(&parameters, "psq");
    assert_agrees("psq", mean(&psq), 1.5 * 1.75, 0.02);
    assert_close("busy", psq.utilization.busy.expect("time"), 0.4, 0.01);
    // With queues at the servers, the latency is simply added, so the mean sojourn is that of M/D/1
    // at 0.4 plus a round trip.
    let random = run_one(&parameters, "random");
    assert_agrees("random", mean(&random), 1.0 + 0.4 / 1.2 + 0.5, 0.02);
}

#[test]
fn stopping_a_copy_takes_the_cancel_cost() {
    // Two copies start together. Each copy takes 1, or 3 if it has a hiccup. If exactly one copy
    // has a hiccup, that copy must be stopped when the response arrives.
    let parameters =
        Parameters { network: None, jitter: Some("bimodal:0.5:2".to_owned()), ..unloaded() };
    let wasted = |cost: Option<&str>| {
        let cancel_cost = cost.map(str::to_owned);
        let outcome = run_one(&Parameters { cancel_cost, ..parameters.clone() }, "laedge:cc");
        // All work is wasted except that of the winner.
        let busy = outcome.utilization.busy.expect("time");
        (mean(&outcome).0, busy * outcome.wasted_fraction.expect("busy"))
    };
    let (free, cheap, dear) = (wasted(None), wasted(Some("0.5")), wasted(Some("10")));
    assert_eq!((free.0, free.0), (cheap.0, dear.0), "unloaded requests do not notice");
    assert!(free.1 < cheap.1 && cheap.1 < dear.1, "{free:?} {cheap:?} {dear:?}");
    // If a copy would end before it could be stopped, it runs to completion, so the waste is the
    // same as without stopping.
    let whole = run_one(&parameters, "laedge");
    let busy = whole.utilization.busy.expect("time");
    assert_close("dear", dear.1, busy * whole.wasted_fraction.expect("busy"), 1e-9);
    // Half of the queries have exactly one hiccup of 2, which is stopped after 0.5. This adds 0.25
    // per query on average, and a query arrives every 50 time units. The number of these queries is
    // random, so the tolerance is six standard errors for 1,800 queries.
    assert_close("cheap", cheap.1 - free.1, 0.25 / 50.0 / 2.0, 6.0 / 1_800_f64.sqrt());
}
