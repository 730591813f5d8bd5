//! Compares policies in the same world: results that must be equal are exactly equal, and
//! differences are paired.

use crate::common::{assert_same, mean, percentile, run, run_one, with};
use curtail_sim::{JitterOf, Parameters};

fn parameters() -> Parameters {
    with("shards = 3, requests = 10_000, replications = 4")
}

#[test]
fn without_jitter_a_hedge_with_foresight_changes_nothing() {
    for (replicas, utilization) in [(2, 0.3), (2, 0.9), (6, 0.7)] {
        let parameters = Parameters { replicas, utilization, ..parameters() };
        let [psq, idealized] = &run(&parameters, &["psq", "idealized"])[..] else { panic!("two") };
        assert_same(psq, idealized);
        let versus = idealized.versus_first.as_ref().expect("both are stable");
        assert_eq!(versus.policy, "psq");
        assert_eq!((versus.difference.mean, versus.ci95.mean), (Some(0.0), Some(0.0)));
    }
}

#[test]
fn with_a_single_replica_hedges_do_nothing() {
    let jitter = Some("bimodal:0.01:10".to_owned());
    let parameters = Parameters { replicas: 1, utilization: 0.5, jitter, ..parameters() };
    let outcomes =
        run(&parameters, &["psq", "naive", "laedge", "laedge:cc+pc", "idealized", "delayed:1:cc"]);
    for outcome in &outcomes[1..] {
        assert_same(&outcomes[0], outcome);
        assert_eq!(outcome.copies_per_query, Some(1.0), "{}", outcome.policy);
    }
}

#[test]
fn where_nothing_waits_laedge_is_naive() {
    // Both policies send two copies immediately, and the second draw of a query is the same under
    // both.
    let jitter = Some("exp:1".to_owned());
    let parameters = Parameters { utilization: 1e-6, jitter, ..parameters() };
    let outcomes = run(&parameters, &["naive", "laedge", "laedge:cc"]);
    for outcome in &outcomes[1..] {
        assert_same(&outcomes[0], outcome);
        assert_eq!(outcome.hedged_fraction, Some(1.0), "{}", outcome.policy);
    }
    let wasted = |at: usize| outcomes[at].wasted_fraction.expect("it was busy");
    assert!(wasted(1) > 0.5 && (wasted(0) - wasted(1)).abs() < 1e-9);
    assert!((wasted(2) - 0.5).abs() < 1e-9, "a loser that stops at once has run as long");
}

#[test]
fn o1_is_psq_in_a_world_without_jitter() {
    let jitter = Some("bimodal:0.01:10".to_owned());
    let o1 = run_one(&Parameters { jitter: jitter.clone(), ..parameters() }, "o1");
    let psq = run_one(&parameters(), "psq");
    assert_same(&o1, &psq);
    let outcomes = run(&Parameters { jitter, ..parameters() }, &["o1", "laedge", "idealized"]);
    for outcome in &outcomes[1..] {
        for p in [50.0, 95.0, 99.0] {
            assert!(percentile(outcome, p) >= percentile(&outcomes[0], p), "{}", outcome.policy);
        }
    }
}

#[test]
fn differences_are_paired() {
    let parameters = Parameters { replications: 10, utilization: 0.7, ..parameters() };
    let [psq, bounded] = &run(&parameters, &["psq", "bounded:2"])[..] else { panic!("two") };
    assert!(psq.versus_first.is_none());
    let versus = bounded.versus_first.as_ref().expect("both are stable");
    let (of_psq, of_bounded) = (mean(psq), mean(bounded));
    let difference = versus.difference.mean.expect("a mean");
    assert!((difference - (of_bounded.0 - of_psq.0)).abs() < 1e-9, "{difference}");
    // This is the difference between the two reported figures, which is not the mean of the
    // replications' differences.
    let expected = percentile(bounded, 99.0).0 - percentile(psq, 99.0).0;
    assert_eq!(versus.difference.percentile(99.0), Some(expected));
    // If the two figures were independent, the squares of their half widths would add up. Common
    // random numbers cancel most of the noise.
    let unpaired = of_psq.1.hypot(of_bounded.1);
    let paired = versus.ci95.mean.expect("ten replications");
    assert!(paired < 0.5 * unpaired, "{paired} of {unpaired}");
    assert!(difference > paired, "and thus they show that it is worse");
}

#[test]
fn percentiles_need_ten_samples_above_them() {
    let at = |requests| {
        let parameters = Parameters { requests, replications: 1, warm_up: 0.0, ..parameters() };
        run_one(&parameters, "psq").request.expect("stable")
    };
    let [few, enough] = [at(999), at(1_000)];
    assert_eq!((few.percentile(99.0), few.percentile(99.9)), (None, None));
    assert!(few.percentile(95.0).is_some());
    assert!(enough.percentile(99.0).is_some() && enough.percentile(99.9).is_none());
    assert_eq!(serde_json::json!(few)["p99"], serde_json::Value::Null);
}

#[test]
fn a_single_replication_has_no_intervals() {
    let outcomes = run(&Parameters { replications: 1, ..parameters() }, &["psq", "laedge"]);
    assert!(outcomes[0].ci95.is_none());
    let versus = outcomes[1].versus_first.as_ref().expect("both are stable");
    assert!(versus.difference.mean.is_some() && versus.ci95.mean.is_none());
}

/// All copies of a query have the same hiccup, so a second copy never wins.
fn shared_jitter() -> Parameters {
    with(
        "shards = 5, replicas = 3, utilization = 0.2, jitter = 'bimodal:0.01:15', \
         jitter-of = 'query', requests = 10_000, replications = 4",
    )
}

#[test]
fn where_nothing_waits_second_copies_change_nothing() {
    let policies = ["psq", "naive", "clone", "laedge:cc", "delayed:1", "idealized"];
    let parameters = Parameters { utilization: 1e-6, ..shared_jitter() };
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
    let outcomes = run(&shared_jitter(), &["psq", "naive", "laedge", "laedge:cc"]);
    let (bound, _) = percentile(&outcomes[0], 99.0);
    for outcome in &outcomes[1..] {
        let (p99, _) = percentile(outcome, 99.0);
        assert!(p99 >= bound, "{}: {p99}, and psq {bound}", outcome.policy);
    }
}
