//! Runs pilot simulations, which are smaller versions of the experiment from which training learns.
//!
//! A pilot consists of several independent runs of the experiment with fewer requests and fewer
//! shards. This is sufficient because shards share only the arrivals. Its draws come from separate
//! streams, derived from the experiment's seed, so that a policy is not measured on the draws from
//! which it was learned. The runs of a pilot do not depend on the number of threads, so the results
//! do not depend on it either.

use std::sync::atomic::Ordering;

use curtail_dist::seed;
use curtail_kernel::Policy;

use super::log::{Log, RATE, Sample};
use crate::candidate::Candidate;
use crate::experiment::Experiment;
use crate::parallel::{self, Plan};
use crate::run::replicate;
use crate::setup::Setup;
use crate::stability;
use crate::tally::Tally;

/// The share of the experiment's queries that one pilot simulates.
const SHARE: f64 = 1.0 / 64.0;

/// The maximum number of samples in a log. This number limits the size of a pilot.
const MOST_SAMPLES: f64 = 200_000.0;

/// The minimum number of queries in a pilot, even for small experiments. With fewer queries, a
/// pilot would not show that second copies slow each other down until queues grow.
const LEAST_QUERIES: f64 = 100_000.0;

const MOST_SHARDS: u32 = 10;

/// The number of independent runs per pilot, which limits the number of threads that work on it.
const RUNS: u32 = 4;

/// The number of runs of an examination, and their length relative to a pilot's runs. An
/// examination must distinguish budgets, and contain the rare long queues that second copies cause.
const EXAMINATION: (u32, u32) = (8, 3);

/// The minimum number of queries above a percentile. With fewer queries above it, the percentile
/// would be mostly due to chance.
const LEAST_ABOVE: f64 = 10.0;

/// The share of a pilot's requests that arrive before measuring begins.
const WARM_UP: f64 = 0.2;

#[derive(Debug)]
pub(super) struct Pilot {
    /// The percentile of queries in each run, in ns. `None` if the pilot was unstable.
    pub(super) percentiles: Option<Vec<f64>>,
    pub(super) hedged: f64,
    pub(super) samples: Vec<Sample>,
}

#[derive(Debug)]
pub(super) struct Pilots<'a> {
    experiment: Experiment,
    /// The same experiment with longer runs, for examinations.
    long: Experiment,
    /// The quantile of query latency, 0 to 1.
    k: f64,
    plan: &'a Plan<'a>,
    /// The number of requests that one run of a pilot adds to the plan's progress.
    weight: u64,
}

fn small(of: &Experiment) -> Experiment {
    // Training takes place before the change.
    let world = of.world.unchanged().part(MOST_SHARDS);
    let queries = queries(of) / f64::from(RUNS * world.shards());
    let warm_up = (queries * WARM_UP / (1.0 - WARM_UP)).ceil() as u64;
    Experiment {
        world,
        requests: queries.ceil() as u64 + warm_up,
        warm_up,
        seed: seed::stream(of.seed, &[b"training"]),
        windows: None,
        ..of.clone()
    }
}

/// Returns the highest quantile of queries, 0 to 1, that one run of an examination can measure.
pub(super) fn highest_share(of: &Experiment) -> f64 {
    1.0 - LEAST_ABOVE / (queries(of) / f64::from(RUNS) * f64::from(EXAMINATION.1))
}

/// Returns the number of requests that one run of a pilot adds to a plan's progress. It is the
/// number of requests in the full experiment whose simulation takes as much work as the run.
fn weight(of: &Experiment, small: &Experiment) -> u64 {
    (small.requests * u64::from(small.world.shards())).div_ceil(u64::from(of.world.shards()))
}

pub(super) fn cost(of: &Experiment, pilots: u32, examinations: u32) -> u64 {
    let (runs, longer) = EXAMINATION;
    let all = u64::from(pilots * RUNS + examinations * runs * longer);
    all * weight(of, &small(of))
}

impl<'a> Pilots<'a> {
    /// Creates the pilots for an experiment. `k` is the quantile of query latency to minimize.
    pub(super) fn new(of: &Experiment, k: f64, plan: &'a Plan<'a>) -> Self {
        let experiment = small(of);
        let weight = weight(of, &experiment);
        let requests = experiment.requests * u64::from(EXAMINATION.1);
        let warm_up = experiment.warm_up * u64::from(EXAMINATION.1);
        let long = Experiment { requests, warm_up, ..experiment.clone() };
        Self { experiment, long, k, plan, weight }
    }

    /// Runs a pilot and logs the response times. `number` selects the draws of the pilot. Returns
    /// `None` if it was stopped.
    pub(super) fn pilot(&self, policy: Policy, number: u32) -> Option<Pilot> {
        self.run(policy, number * RUNS..(number + 1) * RUNS, false)
    }

    /// Runs a longer pilot without a log, with the same draws for all policies. Returns `None` if
    /// it was stopped.
    pub(super) fn examine(&self, policy: Policy) -> Option<Pilot> {
        self.run(policy, u32::MAX - EXAMINATION.0..u32::MAX, true)
    }

    fn run(&self, policy: Policy, runs: std::ops::Range<u32>, examines: bool) -> Option<Pilot> {
        let experiment = if examines { &self.long } else { &self.experiment };
        let weight = if examines { self.weight * u64::from(EXAMINATION.1) } else { self.weight };
        let candidate = Candidate::Policy(policy);
        let done = parallel::each(runs.len(), self.plan.threads, |job| {
            let replication = runs.start + job as u32;
            let run = self.replicate(&Setup { experiment, candidate, replication }, !examines)?;
            self.plan.progress.fetch_add(weight, Ordering::Relaxed);
            Some(run)
        })?;
        let (tallies, logs): (Vec<Tally>, Vec<Vec<Sample>>) = done.into_iter().unzip();
        let of = |tally: &Tally| tally.queries.value_at_quantile(self.k) as f64;
        let stable = stability::judge(experiment, candidate, &tallies).is_none();
        let percentiles = stable.then(|| tallies.iter().map(of).collect());
        let queries: u64 = tallies.iter().map(|tally| tally.queries.len()).sum();
        let hedged: u64 = tallies.iter().map(|tally| tally.hedged).sum();
        let hedged = hedged as f64 / queries.max(1) as f64;
        Some(Pilot { percentiles, hedged, samples: logs.concat() })
    }

    fn replicate(&self, setup: &Setup<'_>, logs: bool) -> Option<(Tally, Vec<Sample>)> {
        let delay_ns = setup.candidate.policy().delay_ns().filter(|_| logs);
        let log = |delay_ns| {
            let log = move |index| Log::new(setup.stream(b"log", index), delay_ns);
            (0..setup.experiment.world.shards()).map(log).collect()
        };
        let logs = delay_ns.map_or_else(Vec::new, log);
        let go_on = &mut |_| !self.plan.stop.load(Ordering::Relaxed);
        let (tally, logs) = replicate(setup, logs, go_on)?;
        Some((tally, logs.into_iter().flat_map(Log::samples).collect()))
    }
}

fn queries(experiment: &Experiment) -> f64 {
    let all = experiment.requests as f64
        * f64::from(experiment.world.shards())
        * f64::from(experiment.replications);
    (all * SHARE).clamp(LEAST_QUERIES, MOST_SAMPLES / RATE)
}
