//! Tests the detection of runs without a steady state.

use crate::common::{run, run_one, with};
use curtail_sim::{Outcome, Parameters, Unstable};

fn parameters(utilization: f64) -> Parameters {
    let small = with("shards = 2, requests = 30_000, replications = 4");
    Parameters { utilization, ..small }
}

#[track_caller]
fn assert_unstable(outcome: &Outcome) {
    let policy = &outcome.policy;
    assert!(!outcome.stable, "{policy} has more work than time");
    assert!(outcome.request.is_none(), "{policy}");
    assert!(outcome.ci95.is_none() && outcome.query.is_none() && outcome.queue.is_none());
    assert!(outcome.copies_per_query.is_none() && outcome.wasted_fraction.is_none());
}

#[test]
fn a_replica_that_is_full_is_unstable_however_flat_the_backlog() {
    let full = |parameters: &Parameters, policy| {
        let outcome = run_one(parameters, policy);
        assert_unstable(&outcome);
        assert_eq!(outcome.unstable_because, Some(Unstable::QueueFull), "{policy}");
    };
    // Under some policies, queries queue at the replicas, where the limit also applies.
    for policy in ["random", "psq"] {
        full(&Parameters { queue: 5, ..parameters(0.95) }, policy);
    }
    // Replicas with long queues get no second copies, so the backlog does not grow.
    let long = Parameters { requests: 600_000, replications: 1, shards: 1, ..parameters(0.7) };
    full(&long, "delayed:0");
    full(&Parameters { queue: 10_000_000, ..long }, "delayed:0");
}

#[test]
fn high_load_is_stable() {
    for (replicas, utilization, policies) in [
        (2, 0.9, &["psq", "random", "idealized"][..]),
        (6, 0.85, &["laedge", "laedge:cc", "laedge:cc+pc"]),
        (2, 0.45, &["naive"]),
    ] {
        let parameters = Parameters { replicas, ..parameters(utilization) };
        for outcome in run(&parameters, policies) {
            assert!(outcome.stable, "{} at {utilization}", outcome.policy);
            assert!(outcome.request.is_some());
        }
    }
}

#[test]
fn short_runs_at_moderate_load_are_stable() {
    for seed in 0..10 {
        for requests in [100, 1_000] {
            let parameters = Parameters { seed, requests, ..parameters(0.7) };
            for outcome in run(&parameters, &["psq", "laedge"]) {
                assert!(outcome.stable, "{} {requests} requests, seed {seed}", outcome.policy);
            }
        }
    }
}

#[test]
fn slots_held_for_the_network_count_as_busy() {
    // A slot is held for the round trip, which is twice the service time. The offered utilization
    // is therefore limited to a third, and the servers are idle for two thirds of the time.
    let network = Some("det:1".to_owned());
    let at = |utilization| Parameters { network: network.clone(), ..parameters(utilization) };
    assert_unstable(&run_one(&at(0.4), "psq"));
    assert!(run_one(&at(0.28), "psq").stable);
    assert!(run_one(&at(0.4), "random").stable, "its queues are at the servers");
}

#[test]
fn servers_that_pause_have_less_time() {
    let slowdown = Some("exp:20/exp:20/0".to_owned());
    let at = |utilization| Parameters { slowdown: slowdown.clone(), ..parameters(utilization) };
    assert_unstable(&run_one(&at(0.6), "psq"));
    assert!(run_one(&at(0.3), "psq").stable);
}

#[test]
fn a_difference_to_an_unstable_run_is_not_reported() {
    let outcomes = run(&parameters(0.6), &["naive", "psq"]);
    assert_unstable(&outcomes[0]);
    assert!(outcomes[1].stable && outcomes[1].versus_first.is_none());
}
