//! Training of `probabilistic:auto`: the delay, the probability and, where it is not given, the
//! budget of second copies that a workload asks for, found by pilot simulations.
//!
//! Source: documents 000 §4.6 and 001 §3.3, after Kaler, He, Elnikety (SPAA 2017). For a budget:
//! run with the present delay and probability, find the best ones on the log of that run, and move
//! the delay half of the way there, because copies change the queues that they meet. The budget:
//! grow it while the percentile improves; where it does not, turn round with half the step.
//!
//! Settled: the percentile is one of *queries*. A request over N shards is as slow as its slowest
//! query, so its p99 is the 0.99^(1/N) of queries; [`Training::percentile`] asks for another. Where
//! that is beyond what an examination can tell, as from a few hundred shards on, it is the highest one
//! with ten queries above it. Logs
//! hold 60 % of a pilot's queries (the sources' sampling rate). Policies are judged by what an
//! examination measured, not by what a log promised; it has the same draws for all budgets, and its
//! percentile counts all queries. A budget is better where the 95 % confidence interval of the
//! paired differences says so: the best of many would else often be the luckiest. An unstable one
//! is worse than any other. A budget that is given is a limit: where queues would grow, or it
//! cannot be kept, and where no budget helps, no second copies are left: `random`.
//!
//! Deviation: only the first budget is learned from no delay on; the others go on from the delay of
//! the best one so far, so fewer pilots do.
//!
//! Cost: at most [`Training::budgets`] × [`Training::pilots`] pilots, each a 64th of the experiment
//! within bounds, and one or two longer examinations per budget: together about as much as the runs
//! of a policy or two.

mod log;
mod optimize;
mod pilot;
mod setting;

use std::sync::atomic::Ordering;

use curtail_kernel::Policy;

use crate::candidate::Candidate;
use crate::experiment::Experiment;
use crate::parallel::Plan;
use crate::student;
pub(crate) use log::Log;
use optimize::Joint;
use pilot::World;
use setting::Setting;

/// How far the delay moves toward the best one on the last log.
const LEARNING_RATE: f64 = 0.5;

/// A delay that moves by less than this share of itself has arrived.
const ARRIVED: f64 = 0.05;

const EXAMINATIONS: u32 = 2;

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

/// Trains what has to be trained among the candidates; none where it was stopped.
pub(crate) fn all(
    experiment: &Experiment,
    candidates: &[Candidate],
    plan: &Plan<'_>,
) -> Option<Vec<Option<Trained>>> {
    let each = candidates.iter().map(|candidate| match *candidate {
        Candidate::Trained { budget } => {
            train(experiment, budget, &Training::default(), plan).map(Some)
        }
        _ => Some(None),
    });
    each.collect()
}

/// How many requests [`crate::compare`] will count in [`Plan::progress`] for training.
pub(crate) fn total(experiment: &Experiment, candidates: &[Candidate]) -> u64 {
    let costs = candidates.iter().map(|candidate| match *candidate {
        Candidate::Trained { budget } => Training::default().cost(experiment, budget),
        _ => 0,
    });
    costs.sum()
}

impl Training {
    /// The share of queries whose latency is to be least.
    fn share(&self, experiment: &Experiment) -> f64 {
        let of_requests = 0.99_f64.powf(1.0 / f64::from(experiment.shards));
        self.percentile.unwrap_or_else(|| of_requests.min(pilot::highest_share(experiment)))
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

struct Trainer<'a> {
    world: World<'a>,
    pilots: u32,
    /// The share of queries whose latency is to be least.
    k: f64,
}

impl Trainer<'_> {
    fn fixed(&self, budget: f64) -> Option<Trained> {
        if budget == 0.0 {
            return Some(Setting::NONE.trained());
        }
        let setting = self.learn(Setting::NONE.with(budget))?;
        let (setting, percentiles) = self.settle(setting)?;
        Some(if percentiles.is_some() { setting } else { Setting::NONE }.trained())
    }

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
                let (setting, percentiles) = self.settle(self.learn(best.with(budget))?)?;
                improves = is_better(percentiles.as_deref(), least.as_deref());
                if improves {
                    (best, least) = (setting, percentiles);
                }
            }
            step *= if improves { 2.0 } else { -0.5 };
        }
        Some(best.trained())
    }

    /// Examines a setting: its percentiles, none where queues grow. Where it exceeds its budget,
    /// its probability is lowered first, and where that does not help, it is no better than one
    /// whose queues grow.
    fn settle(&self, mut setting: Setting) -> Option<(Setting, Option<Vec<f64>>)> {
        for _ in 0..EXAMINATIONS {
            let examined = self.world.examine(setting.policy())?;
            if examined.percentiles.is_none() || setting.keeps(examined.hedged) {
                return Some((setting, examined.percentiles));
            }
            setting.probability *= setting.budget / examined.hedged;
            setting = setting.rounded();
        }
        Some((setting, None))
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

/// Are these percentiles lower than those, by more than chance? Each pair is of the same draws.
fn is_better(these: Option<&[f64]>, those: Option<&[f64]>) -> bool {
    let (Some(these), Some(those)) = (these, those) else { return these.is_some() };
    let differences: Vec<f64> = these.iter().zip(those).map(|(this, that)| this - that).collect();
    let found = student::mean(&differences).zip(student::half_width(&differences));
    found.is_some_and(|(mean, half_width)| mean + half_width < 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_one_that_ten_queries_exceed() {
        let share = |shards| {
            let parameters = crate::Parameters { shards, ..crate::Parameters::default() };
            Training::default().share(&parameters.experiment().expect("an experiment"))
        };
        assert!((share(50) - 0.99_f64.powf(0.02)).abs() < 1e-12);
        assert!(share(10_000) < 0.99_f64.powf(1e-4) && share(10_000) > 0.999_9);
        assert!((share(10_000) - share(100_000)).abs() < 1e-12);
    }

    #[test]
    fn better_is_what_is_lower_by_more_than_chance() {
        let base = [10.0, 12.0, 11.0, 13.0];
        assert!(is_better(Some(&[9.0, 11.1, 10.0, 12.1]), Some(&base)));
        assert!(!is_better(Some(&[6.0, 13.0, 10.0, 14.0]), Some(&base)), "by 0.75 ± 3.76");
        assert!(!is_better(Some(&base), Some(&base)));
        assert!(!is_better(None, Some(&base)) && !is_better(None, None));
        assert!(is_better(Some(&base), None));
    }
}
