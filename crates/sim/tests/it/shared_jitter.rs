//! Hiccups that are the query's: a second copy has the same one, so no hedge wins.

use crate::common::{percentile, run, run_one};
use curtail_sim::{JitterOf, Parameters};

fn of(jitter_of: JitterOf) -> Parameters {
    Parameters {
        shards: 5,
        replicas: 3,
        utilization: 0.2,
        jitter: Some("bimodal:0.01:15".to_owned()),
        jitter_of,
        requests: 10_000,
        replications: 4,
        ..Parameters::default()
    }
}

#[test]
fn where_nothing_waits_second_copies_change_nothing() {
    let policies = ["psq", "naive", "clone", "laedge:cc", "delayed:1", "idealized"];
    let parameters = Parameters { utilization: 1e-6, ..of(JitterOf::Query) };
    let outcomes = run(&parameters, &policies);
    for outcome in &outcomes[1..] {
        assert_eq!(outcome.histogram, outcomes[0].histogram, "{}", outcome.policy);
        assert!(outcome.copies_per_query > Some(1.1), "{}", outcome.policy);
    }
    let own = run(&Parameters { jitter_of: JitterOf::Copy, ..parameters }, &policies);
    for outcome in &own[1..] {
        assert!(percentile(outcome, 99.0) < percentile(&own[0], 99.0), "{}", outcome.policy);
    }
}

#[test]
fn under_load_no_hedge_is_below_per_shard_queuing() {
    let outcomes = run(&of(JitterOf::Query), &["psq", "naive", "laedge", "laedge:cc"]);
    let (bound, _) = percentile(&outcomes[0], 99.0);
    for outcome in &outcomes[1..] {
        let (p99, _) = percentile(outcome, 99.0);
        assert!(p99 >= bound, "{}: {p99}, and psq {bound}", outcome.policy);
    }
}

#[test]
fn whose_it_is_changes_nothing_where_queries_have_one_copy() {
    let [own, shared] = [JitterOf::Copy, JitterOf::Query].map(|whose| run_one(&of(whose), "psq"));
    assert_eq!(own.histogram, shared.histogram);
    assert_eq!(own.request, shared.request);
}
