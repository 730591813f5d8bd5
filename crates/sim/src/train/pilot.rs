//! Pilot simulations: the experiment in small, to learn from.
//!
//! A pilot is some independent runs of the experiment with fewer requests and fewer shards, which
//! is enough: shards share nothing but the arrivals. Its draws come from the experiment's seed, by
//! streams of their own, so that what is learned is not measured on the draws that it was learned
//! from. The runs of a pilot do not depend on the number of threads, so no result does.

use std::sync::atomic::Ordering;

use curtail_dist::seed;
use curtail_kernel::Policy;

use super::log::{Log, RATE, Sample};
use crate::candidate::Candidate;
use crate::experiment::{Experiment, Setup};
use crate::parallel::{self, Plan};
use crate::run::replicate;
use crate::stability;
use crate::tally::Tally;

/// The share of the experiment's queries that one pilot simulates.
const SHARE: f64 = 1.0 / 64.0;

/// The most samples of a log: beyond it, a pilot is not made larger.
const MOST_SAMPLES: f64 = 200_000.0;

/// The fewest queries of a pilot, however small the experiment is: fewer would not show that second
/// copies slow each other down until queues grow.
const LEAST_QUERIES: f64 = 100_000.0;

const MOST_SHARDS: u32 = 10;

/// Independent runs of a pilot: as many threads can work on it.
const RUNS: u32 = 4;

/// The runs of an examination, and how many times as long they are as those of a pilot: it must
/// tell budgets apart, and see the rare long queues that second copies bring about.
const EXAMINATION: (u32, u32) = (8, 3);

/// Queries that are above a percentile, where it is more than chance.
const LEAST_ABOVE: f64 = 10.0;

/// The share of a pilot's requests that comes before measuring begins.
const WARM_UP: f64 = 0.2;

#[derive(Debug)]
pub(super) struct Pilot {
    /// The percentile of queries in each run, in ns; none where it was unstable.
    pub(super) percentiles: Option<Vec<f64>>,
    pub(super) hedged: f64,
    pub(super) samples: Vec<Sample>,
}

#[derive(Debug)]
pub(super) struct World<'a> {
    experiment: Experiment,
    /// The same, for longer.
    long: Experiment,
    /// Of queries, 0 to 1.
    k: f64,
    plan: &'a Plan<'a>,
    /// What one run of a pilot counts in the plan's progress.
    weight: u64,
}

fn small(of: &Experiment) -> Experiment {
    let shards = of.shards.min(MOST_SHARDS);
    let queries = queries(of) / f64::from(RUNS * shards);
    let warm_up = (queries * WARM_UP / (1.0 - WARM_UP)).ceil() as u64;
    Experiment {
        shards,
        requests: queries.ceil() as u64 + warm_up,
        warm_up,
        seed: seed::stream(of.seed, &[b"training"]),
        // Who trains does not know yet what will change.
        change: None,
        windows: None,
        ..of.clone()
    }
}

/// The highest share of queries, 0 to 1, whose percentile one run of an examination tells.
pub(super) fn highest_share(of: &Experiment) -> f64 {
    1.0 - LEAST_ABOVE / (queries(of) / f64::from(RUNS) * f64::from(EXAMINATION.1))
}

/// What one run of a pilot counts in a plan's progress: requests of the experiment that are as much
/// work.
fn weight(of: &Experiment, small: &Experiment) -> u64 {
    (small.requests * u64::from(small.shards)).div_ceil(u64::from(of.shards))
}

pub(super) fn cost(of: &Experiment, pilots: u32, examinations: u32) -> u64 {
    let (runs, longer) = EXAMINATION;
    let all = u64::from(pilots * RUNS + examinations * runs * longer);
    all * weight(of, &small(of))
}

impl<'a> World<'a> {
    /// A world of pilots for an experiment, in which the share `k` of queries matters.
    pub(super) fn new(of: &Experiment, k: f64, plan: &'a Plan<'a>) -> Self {
        let experiment = small(of);
        let weight = weight(of, &experiment);
        let requests = experiment.requests * u64::from(EXAMINATION.1);
        let warm_up = experiment.warm_up * u64::from(EXAMINATION.1);
        let long = Experiment { requests, warm_up, ..experiment.clone() };
        Self { experiment, long, k, plan, weight }
    }

    /// A pilot with a log; `number` names its draws. None where it was stopped.
    pub(super) fn pilot(&self, policy: Policy, number: u32) -> Option<Pilot> {
        self.run(policy, number * RUNS..(number + 1) * RUNS, false)
    }

    /// A longer pilot without a log, the same one for all policies. None where it was stopped.
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
            (0..setup.experiment.shards).map(log).collect()
        };
        let logs = delay_ns.map_or_else(Vec::new, log);
        let go_on = &mut |_| !self.plan.stop.load(Ordering::Relaxed);
        let (tally, logs) = replicate(setup, logs, go_on)?;
        Some((tally, logs.into_iter().flat_map(Log::samples).collect()))
    }
}

fn queries(experiment: &Experiment) -> f64 {
    let all = experiment.requests as f64
        * f64::from(experiment.shards)
        * f64::from(experiment.replications);
    (all * SHARE).clamp(LEAST_QUERIES, MOST_SAMPLES / RATE)
}
