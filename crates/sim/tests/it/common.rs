//! Helpers for the simulator's tests: runs, and comparisons of estimates with the truth.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use curtail_sim::{Candidate, Outcome, PERCENTILES, Parameters, Plan, UNIT_NS, compare};

/// The allowed error of an estimate, in half widths of its 95 % interval. With the twenty
/// replications of [`sharp`] this is 4.5 × 2.093 = 9.4 standard errors of Student's t with 19
/// degrees of freedom: one false alarm in more than 10⁷ seeds.
const HALF_WIDTHS: f64 = 4.5;

/// Histograms have three significant digits and report the upper end of a bucket.
pub(crate) const DIGITS: f64 = 1.5e-3;

#[track_caller]
pub(crate) fn with(text: &str) -> Parameters {
    let mut table: std::collections::BTreeMap<String, Parameters> =
        curtail_config::parse("test", &format!("it = {{ {text} }}")).expect(text);
    table.remove("it").expect("it is there")
}

/// Returns the parameters of one shard with one replica, with enough replications for narrow
/// intervals.
pub(crate) fn sharp() -> Parameters {
    with("shards = 1, replicas = 1, requests = 40_000, replications = 20")
}

/// Returns parameters under which a request of length 1 arrives every 10 time units, so that
/// nothing waits.
pub(crate) fn clockwork() -> Parameters {
    with(
        "shards = 1, replicas = 1, utilization = 0.1, service = 'det:1', arrivals = 'constant', \
         requests = 1000, warm-up = 0.0, replications = 1",
    )
}

pub(crate) fn candidates(policies: &[&str]) -> Vec<Candidate> {
    let parse = |text: &&str| Candidate::parse(text, UNIT_NS).expect("a policy");
    policies.iter().map(parse).collect()
}

/// Calls `call` with a plan that nothing stops. Returns the result of the call and the plan's
/// progress.
pub(crate) fn planned<T>(threads: usize, call: impl FnOnce(&Plan<'_>) -> T) -> (T, u64) {
    let (progress, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let plan = Plan { threads, percentiles: &PERCENTILES, progress: &progress, stop: &stop };
    let result = call(&plan);
    (result, progress.load(Ordering::Relaxed))
}

/// Runs policies on this number of threads.
pub(crate) fn run_on(threads: usize, parameters: &Parameters, policies: &[&str]) -> Vec<Outcome> {
    let experiment = parameters.experiment().expect("a good experiment");
    let run = |plan: &Plan<'_>| compare(&experiment, &candidates(policies), plan);
    planned(threads, run).0.expect("policies fit").expect("nothing stops it")
}

pub(crate) fn run(parameters: &Parameters, policies: &[&str]) -> Vec<Outcome> {
    run_on(2, parameters, policies)
}

pub(crate) fn run_one(parameters: &Parameters, policy: &str) -> Outcome {
    run(parameters, &[policy]).remove(0)
}

/// Returns the mean latency of requests, with half the width of its interval.
pub(crate) fn mean(outcome: &Outcome) -> (f64, f64) {
    let mean = |figures: &Option<curtail_sim::Figures>| {
        figures.as_ref().and_then(|figures| figures.mean).expect("a stable run")
    };
    (mean(&outcome.request), mean(&outcome.ci95))
}

/// Returns a percentile of requests' latencies, with half the width of its interval.
pub(crate) fn percentile(outcome: &Outcome, percentile: f64) -> (f64, f64) {
    let figure = |figures: &Option<curtail_sim::Figures>| {
        figures.as_ref().and_then(|figures| figures.percentile(percentile)).expect("enough samples")
    };
    (figure(&outcome.request), figure(&outcome.ci95))
}

/// Asserts that an estimate agrees with the truth, and that it is precise enough: half the width of
/// its interval is at most the share `most` of the truth.
#[track_caller]
pub(crate) fn assert_agrees(what: &str, (estimate, half): (f64, f64), truth: f64, most: f64) {
    assert!(half <= most * truth, "{what}: ±{half} is too vague about {truth}");
    let off = (estimate - truth).abs();
    assert!(
        off <= HALF_WIDTHS * half + DIGITS * truth,
        "{what}: {estimate} ± {half}, but it is {truth}"
    );
}

/// Asserts that two numbers differ by at most the given share of the truth.
#[track_caller]
pub(crate) fn assert_close(what: &str, seen: f64, truth: f64, share: f64) {
    assert!((seen - truth).abs() <= share * truth.abs(), "{what}: {seen}, but it is {truth}");
}

/// Asserts that two outcomes have exactly the same latencies.
#[track_caller]
pub(crate) fn assert_same(a: &Outcome, b: &Outcome) {
    let policies = (&a.policy, &b.policy);
    assert_eq!(a.histogram, b.histogram, "{policies:?}");
    assert_eq!((&a.request, &a.ci95, &a.query), (&b.request, &b.ci95, &b.query), "{policies:?}");
}

#[track_caller]
pub(crate) fn refusal(parameters: &Parameters) -> String {
    parameters.experiment().expect_err("bad parameters").to_string()
}

/// Returns the reason why a policy does not fit a good experiment.
#[track_caller]
pub(crate) fn unfit(parameters: &Parameters, policy: &str) -> String {
    let experiment = parameters.experiment().expect("a good experiment");
    let run = |plan: &Plan<'_>| compare(&experiment, &candidates(&[policy]), plan).map(drop);
    planned(1, run).0.expect_err("it does not fit").to_string()
}
