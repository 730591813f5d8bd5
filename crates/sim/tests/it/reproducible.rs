//! Checks that results depend only on the parameters, the seed and the policy.

use crate::common::{run, run_on, with};
use curtail_sim::{Outcome, Parameters, total};

fn parameters() -> Parameters {
    with(
        "shards = 5, replicas = 3, utilization = 0.5, jitter = 'bimodal:0.01:10', requests = 5000, \
         replications = 3",
    )
}

const POLICIES: [&str; 10] = [
    "psq",
    "random",
    "naive",
    "delayed:2:cc",
    "laedge",
    "laedge:cc+pc",
    "idealized",
    "rescue",
    "rescue:preempt",
    "rescue+bounded:2",
];

/// Returns an outcome as JSON without its elapsed time.
fn json(outcome: &Outcome) -> String {
    let mut value = serde_json::to_value(outcome).expect("an outcome is data");
    let entries = value.as_object_mut().expect("an object");
    entries.remove("elapsed_s").expect("the outcome contains its run time");
    value.to_string()
}

fn all_json(outcomes: &[Outcome]) -> Vec<String> {
    outcomes.iter().map(json).collect()
}

#[test]
fn threads_do_not_matter() {
    let faults = with(
        "shards = 5, replicas = 3, utilization = 0.3, jitter = 'bimodal:0.01:10', requests = 5000, \
         replications = 3, network = 'exp:0.1', slowdown = 'exp:100/exp:10/0.2', window = 500, \
         outage = 'exp:500/exp:20', cancel-cost = '0.1', arrivals = 'mmpp:4:0.2:30', \
         change = ['jitter=exp:1', 'speeds=1,0.8,0.9']",
    );
    for (threads, parameters) in [(7, parameters()), (2, faults)] {
        let once = run_on(1, &parameters, &POLICIES);
        let again = run_on(threads, &parameters, &POLICIES);
        assert_eq!(all_json(&again), all_json(&once), "{threads} threads");
    }
}

#[test]
fn seeds_matter() {
    let outcomes: Vec<Outcome> = [1, 2, u64::MAX]
        .map(|seed| run(&Parameters { seed, ..parameters() }, &["psq"]).remove(0))
        .into();
    for pair in [[0, 1], [1, 2], [0, 2]] {
        assert_ne!(outcomes[pair[0]].histogram, outcomes[pair[1]].histogram);
    }
}

#[test]
fn other_policies_do_not_matter() {
    let together = run(&parameters(), &POLICIES);
    for (policy, outcome) in POLICIES.iter().zip(together) {
        let alone = run(&parameters(), &[policy]).remove(0);
        assert_eq!(alone.histogram, outcome.histogram, "{policy}");
        assert_eq!(alone.utilization, outcome.utilization, "{policy}");
        assert_eq!(alone.copies_per_query, outcome.copies_per_query, "{policy}");
    }
}

#[test]
fn progress_counts_every_request_once() {
    let experiment = parameters().experiment().expect("a good experiment");
    let (progress, stop) = Default::default();
    let plan = curtail_sim::Plan { threads: 2, percentiles: &[], progress: &progress, stop: &stop };
    let candidates = [curtail_sim::Candidate::O1; 2];
    let outcomes = curtail_sim::compare(&experiment, &candidates, &plan).expect("policies fit");
    assert_eq!(outcomes.map(|outcomes| outcomes.len()), Some(2));
    let counted = progress.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(counted, total(&experiment, &candidates));
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let stopped = curtail_sim::compare(&experiment, &candidates, &plan).expect("policies fit");
    assert!(stopped.is_none(), "a run that was stopped has no figures");
}
