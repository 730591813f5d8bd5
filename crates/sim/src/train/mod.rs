//! Training of `probabilistic:auto`: the delay, the probability and, where it is not given, the
//! budget of second copies that a workload asks for, found by pilot simulations.
//!
//! Source: documents 000 §4.6 and 001 §3.3, after Kaler, He, Elnikety (SPAA 2017). For a budget: run
//! with the present delay and probability, find the best ones on the log of that run, and move the
//! delay half of the way there, because copies change the queues that they meet. The budget: grow it
//! while the percentile improves; where it does not, turn round with half the step.
//!
//! Settled: the percentile is one of *queries*. A request over N shards is as slow as its slowest
//! query, so its p99 is the 0.99^(1/N) of queries; [`Training::percentile`] asks for another. Logs
//! hold 60 % of a pilot's queries (the sources' sampling rate). Policies are judged by what an
//! examination measured, not by what a log promised; it has the same draws for all budgets, and its
//! percentile counts all queries. An unstable one is worse than any other. A budget that is given is
//! a limit: where queues would grow, or it cannot be kept, and where no budget helps, no second copies
//! are left: `random`.
//!
//! Deviation: the source starts every budget without a delay; here the second one goes on from the
//! delay of the best one so far, so fewer pilots do. Delay and probability are rounded to three
//! digits, toward fewer copies.
//!
//! Cost: at most [`Training::budgets`] × [`Training::pilots`] pilots, each a 64th of the experiment
//! within bounds, and one or two longer examinations per budget: together about as much as the runs
//! of a policy or two.

mod log;
mod optimize;
mod pilot;

use std::sync::atomic::Ordering;

use curtail_kernel::Policy;

use crate::candidate::Candidate;
use crate::compare::Plan;
use crate::experiment::Experiment;
pub(crate) use log::Log;
use optimize::Joint;
use pilot::World;

/// How far the delay moves toward the best one on the last log.
const LEARNING_RATE: f64 = 0.5;

/// A delay that moves by less than this share of itself has arrived.
const ARRIVED: f64 = 0.05;

/// A budget may be exceeded by this share of itself, which may be chance.
const TOLERANCE: f64 = 0.05;

/// The most examinations per budget.
const EXAMINATIONS: u32 = 2;

/// A percentile that is not lower by this share of itself may be so by chance.
const MARGIN: f64 = 0.01;

/// The first budget that is tried, and the smallest step between two.
const STEP: f64 = 0.04;
const LEAST_STEP: f64 = 0.0005;

/// How to train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// The share of queries whose latency is to be least, 0 to 1; that which makes the p99 of
    /// requests, where it is none.
    pub percentile: Option<f64>,
    /// The most budgets to try.
    pub budgets: u32,
    /// The most pilots for each of them.
    pub pilots: u32,
}

impl Default for Training {
    fn default() -> Self {
        Self { percentile: None, budgets: 8, pilots: 8 }
    }
}

/// What training came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trained {
    /// A `probabilistic:D:Q`, or `random` where no second copy helps.
    pub policy: Policy,
    /// The share of queries that may get a second copy.
    pub budget: f64,
}

/// Trains for an experiment; the budget as well, where none is given. None where it was stopped.
#[must_use]
pub fn train(
    experiment: &Experiment,
    budget: Option<f64>,
    training: &Training,
    plan: &Plan<'_>,
) -> Option<Trained> {
    let k = training.share(experiment);
    let trainer = Trainer { world: World::new(experiment, k, plan), pilots: training.pilots, k };
    let before = plan.progress.load(Ordering::Relaxed);
    let trained = match budget {
        Some(budget) => trainer.fixed(budget)?,
        None => trainer.search(training.budgets)?,
    };
    // What was not needed counts as done.
    let done = plan.progress.load(Ordering::Relaxed) - before;
    let left = training.cost(experiment, budget).saturating_sub(done);
    plan.progress.fetch_add(left, Ordering::Relaxed);
    Some(trained)
}

/// What stands for a candidate while it is checked that it can run: where it has to be trained, a
/// policy of the form that comes of it.
pub(crate) fn form(candidate: Candidate) -> Candidate {
    match candidate.policy() {
        Policy::ProbabilisticAuto { .. } => {
            Candidate::Policy(Policy::Probabilistic { delay_ns: 0, probability: 0.0 })
        }
        _ => candidate,
    }
}

/// Trains what has to be trained among the candidates; none where it was stopped.
pub(crate) fn all(
    experiment: &Experiment,
    candidates: &[Candidate],
    plan: &Plan<'_>,
) -> Option<Vec<Option<Trained>>> {
    let each = candidates.iter().map(|candidate| match candidate.policy() {
        Policy::ProbabilisticAuto { budget } => {
            train(experiment, budget, &Training::default(), plan).map(Some)
        }
        _ => Some(None),
    });
    each.collect()
}

/// How many requests [`crate::compare`] will count in [`Plan::progress`] for training, beside
/// those of [`crate::total`].
#[must_use]
pub fn training_total(experiment: &Experiment, candidates: &[Candidate]) -> u64 {
    let costs = candidates.iter().map(|candidate| match candidate.policy() {
        Policy::ProbabilisticAuto { budget } => Training::default().cost(experiment, budget),
        _ => 0,
    });
    costs.sum()
}

impl Training {
    /// The share of queries whose latency is to be least.
    fn share(&self, experiment: &Experiment) -> f64 {
        self.percentile.unwrap_or_else(|| 0.99_f64.powf(1.0 / f64::from(experiment.shards)))
    }

    /// The most that it counts in a plan's progress.
    fn cost(&self, experiment: &Experiment, budget: Option<f64>) -> u64 {
        let (pilots, examinations) = match budget {
            Some(0.0) => (0, 0),
            Some(_) => (self.pilots, EXAMINATIONS),
            None => (self.budgets * self.pilots, self.budgets * EXAMINATIONS + 1),
        };
        pilot::cost(experiment, pilots, examinations)
    }
}

/// The parameters of a probabilistic hedge, and the budget that they were learned for.
#[derive(Clone, Copy, Debug)]
struct Setting {
    delay_ns: u64,
    probability: f64,
    budget: f64,
}

impl Setting {
    /// No second copies.
    const NONE: Self = Self { delay_ns: 0, probability: 0.0, budget: 0.0 };

    /// Where learning begins for another budget.
    fn with(self, budget: f64) -> Self {
        let times = budget / self.budget;
        let probability = if self.budget > 0.0 { self.probability * times } else { budget };
        Self { probability: probability.min(1.0), budget, ..self }
    }

    fn policy(self) -> Policy {
        if self.probability > 0.0 {
            Policy::Probabilistic { delay_ns: self.delay_ns, probability: self.probability }
        } else {
            Policy::Random
        }
    }

    /// Is this share of queries with a second copy within the budget?
    fn keeps(self, hedged: f64) -> bool {
        hedged <= self.budget * (1.0 + TOLERANCE)
    }

    /// In three digits, and with no more copies.
    fn rounded(self) -> Self {
        let digit = |value: f64| 10_f64.powf(value.log10().floor() - 2.0);
        let delay_ns = self.delay_ns as f64;
        let delay_ns = if self.delay_ns > 0 {
            ((delay_ns / digit(delay_ns)).ceil() * digit(delay_ns)).round() as u64
        } else {
            0
        };
        // In parts of a power of ten, which divide without a remainder in the last digit.
        let parts = (1.0 / digit(self.probability)).round();
        let probability = match self.probability {
            q if q < 1.0 => (q * parts).floor() / parts,
            _ => 1.0,
        };
        Self { delay_ns, probability, ..self }
    }

    fn trained(self) -> Trained {
        Trained { policy: self.policy(), budget: self.budget }
    }
}

struct Trainer<'a> {
    world: World<'a>,
    /// The most for each budget.
    pilots: u32,
    /// The share of queries whose latency is to be least.
    k: f64,
}

impl Trainer<'_> {
    /// For this budget.
    fn fixed(&self, budget: f64) -> Option<Trained> {
        if budget == 0.0 {
            return Some(Setting::NONE.trained());
        }
        let setting = self.learn(Setting::NONE.with(budget))?;
        let (setting, percentile) = self.settle(setting)?;
        let works = percentile < f64::INFINITY;
        Some(if works { setting } else { Setting::NONE }.trained())
    }

    /// For the best budget.
    fn search(&self, budgets: u32) -> Option<Trained> {
        let (mut best, mut least) = self.settle(Setting::NONE)?;
        let mut step: f64 = STEP;
        let mut tried = 0;
        while tried < budgets && step.abs() >= LEAST_STEP {
            // In parts of a million, for these are printed.
            let budget = ((best.budget + step).min(1.0) * 1e6).round() / 1e6;
            let mut improves = false;
            if budget > 0.0 && budget != best.budget {
                tried += 1;
                let setting = self.learn(best.with(budget))?;
                let (setting, percentile) = self.settle(setting)?;
                if percentile < least * (1.0 - MARGIN) {
                    (best, least, improves) = (setting, percentile, true);
                }
            }
            step *= if improves { 2.0 } else { -0.5 };
        }
        Some(best.trained())
    }

    /// Examines a setting: its percentile, in ns, is without end where queues grow. Where it exceeds
    /// its budget, its probability is lowered first, and where that does not help, it is no better
    /// than one whose queues grow.
    fn settle(&self, mut setting: Setting) -> Option<(Setting, f64)> {
        for _ in 0..EXAMINATIONS {
            let examined = self.world.examine(setting.policy())?;
            let Some(ns) = examined.percentile_ns else { break };
            if setting.keeps(examined.hedged) {
                return Some((setting, ns as f64));
            }
            setting.probability *= setting.budget / examined.hedged;
            setting = setting.rounded();
        }
        Some((setting, f64::INFINITY))
    }

    /// Learns the delay and the probability for the budget of a setting, from there on. In the
    /// second half of the pilots the delay stays, and the probability alone is brought within the
    /// budget: more copies make more queries wait for longer than the delay.
    fn learn(&self, mut setting: Setting) -> Option<Setting> {
        for number in 0..self.pilots {
            let pilot = self.world.pilot(setting.policy(), number)?;
            if pilot.samples.is_empty() {
                break;
            }
            let joint = Joint::new(pilot.samples);
            let now = setting.delay_ns as f64;
            let best = joint.optimum(self.k, setting.budget).filter(|_| number < self.pilots / 2);
            let best = best.map_or(now, |best| best.delay_ns as f64);
            let next = now + LEARNING_RATE * (best - now);
            let keeps = setting.keeps(pilot.hedged);
            if (next - now).abs() <= ARRIVED * next.max(now) && keeps && number > 0 {
                break;
            }
            let allowed = joint.probability(next as u64, setting.budget);
            setting.probability = if keeps || next != now {
                allowed
            } else {
                allowed.min(setting.probability * setting.budget / pilot.hedged)
            };
            setting.delay_ns = next as u64;
            setting = setting.rounded();
        }
        Some(setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_rounded_toward_fewer_copies() {
        let setting = |delay_ns, probability| Setting { delay_ns, probability, budget: 0.1 };
        for (given, delay_ns, probability) in [
            (setting(5_123_456, 0.123_49), 5_130_000, 0.123),
            (setting(0, 1.0), 0, 1.0),
            (setting(99_999, 0.000_099_99), 100_000, 0.000_099_9),
            (setting(7, 0.5), 7, 0.5),
        ] {
            let rounded = given.rounded();
            assert_eq!((rounded.delay_ns, rounded.probability), (delay_ns, probability));
        }
    }
}
