//! Training of `probabilistic:auto`. Pilot simulations find the delay, the probability and, if it
//! is not given, the best budget of second copies for a workload.
//!
//! Source: documents 000 §4.6 and 001 §3.3, after Kaler, He, Elnikety (SPAA 2017). For a budget,
//! training runs a pilot with the present delay and probability, finds the best values for the log
//! of that run, and moves the delay halfway to the best one. The delay moves only halfway, because
//! copies change the queues in which they wait. The budget itself is increased while the percentile
//! improves. Otherwise, the direction is reversed and the step is halved.
//!
//! Choices:
//! - The percentile refers to *queries*, not to requests. A request over N shards is as slow as its
//!   slowest query, so its p99 is the 0.99^(1/N) quantile of queries. [`Training::percentile`] sets
//!   a different percentile. With a few hundred shards or more, an examination cannot measure that
//!   quantile. In that case, the percentile is the highest one with ten queries above it.
//! - Logs contain 60 % of a pilot's queries, which is the sampling rate of the sources.
//! - Policies are compared by the measurements of an examination, not by the predictions from a
//!   log. An examination uses the same draws for all budgets, and its percentile covers all
//!   queries.
//! - A budget is better if the 95 % confidence interval of the paired differences is below zero.
//!   Otherwise, the best of many budgets would often be the one that was favored by chance. An
//!   unstable budget is worse than any other.
//! - A given budget is a limit. If queues would grow, if the limit cannot be kept, or if no budget
//!   helps, there are no second copies, so the result is `random`.
//!
//! Deviation: learning starts from a delay of zero only for the first budget. For later budgets, it
//! starts from the delay of the best budget found by then, because fewer pilots are then needed.
//!
//! Cost: at most [`Training::budgets`] × [`Training::pilots`] pilots, and one or two longer
//! examinations per budget. A pilot simulates a 64th of the experiment's queries, within bounds.
//! Together, pilots and examinations take about as long as the runs of one or two policies.

mod log;
mod optimize;
mod pilot;
mod setting;

use std::sync::atomic::Ordering;

use curtail_kernel::Policy;

use crate::candidate::Candidate;
use crate::experiment::Experiment;
use crate::parallel::Plan;
use curtail_stats::student;
pub(crate) use log::Log;
use optimize::Joint;
use pilot::Pilots;
use setting::Setting;

/// The delay moves by this share of its distance to the best delay for the last log.
const LEARNING_RATE: f64 = 0.5;

/// The delay has converged if its relative change is smaller than this.
const ARRIVED: f64 = 0.05;

const EXAMINATIONS: u32 = 2;

/// The first budget to try, and the smallest step between two budgets.
const STEP: f64 = 0.04;
const LEAST_STEP: f64 = 0.0005;

/// The settings of the training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// The quantile of query latency to minimize, 0 to 1. `None` stands for the quantile that
    /// determines the p99 of requests.
    pub percentile: Option<f64>,
    /// The maximum number of budgets that are tried.
    pub budgets: u32,
    /// The maximum number of pilots per budget.
    pub pilots: u32,
}

impl Default for Training {
    fn default() -> Self {
        Self { percentile: None, budgets: 8, pilots: 8 }
    }
}

/// The result of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trained {
    /// A `probabilistic:D:Q`, or `random` if no second copy helps.
    pub policy: Policy,
    /// The share of queries that may get a second copy.
    pub budget: f64,
}

/// Trains a policy for an experiment. If `budget` is `None`, the best budget is also found. Returns
/// `None` if it was stopped.
pub fn train(
    experiment: &Experiment,
    budget: Option<f64>,
    training: &Training,
    plan: &Plan<'_>,
) -> Option<Trained> {
    let k = training.share(experiment);
    let trainer = Trainer { runs: Pilots::new(experiment, k, plan), pilots: training.pilots, k };
    let before = plan.progress.load(Ordering::Relaxed);
    let trained = match budget {
        Some(budget) => trainer.fixed(budget)?,
        None => trainer.search(training.budgets)?,
    };
    // Pilots that were not needed are counted as done.
    let done = plan.progress.load(Ordering::Relaxed) - before;
    let left = training.cost(experiment, budget).saturating_sub(done);
    plan.progress.fetch_add(left, Ordering::Relaxed);
    Some(trained)
}

/// Trains the candidates that need it. Returns `None` if it was stopped.
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

/// Returns the number of requests that [`crate::compare`] counts in [`Plan::progress`] for
/// training.
pub(crate) fn total(experiment: &Experiment, candidates: &[Candidate]) -> u64 {
    let costs = candidates.iter().map(|candidate| match *candidate {
        Candidate::Trained { budget } => Training::default().cost(experiment, budget),
        _ => 0,
    });
    costs.sum()
}

impl Training {
    /// Returns the quantile of query latency that training minimizes.
    fn share(&self, experiment: &Experiment) -> f64 {
        let of_requests = 0.99_f64.powf(1.0 / f64::from(experiment.world.shards()));
        self.percentile.unwrap_or_else(|| of_requests.min(pilot::highest_share(experiment)))
    }

    /// Returns the maximum number of requests that the training counts in a plan's progress.
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
    runs: Pilots<'a>,
    pilots: u32,
    /// The quantile of query latency to minimize.
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
            // The budget is rounded to millionths, because it is printed.
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

    /// Examines a setting and returns its percentiles, or `None` if queues grow. If the setting
    /// exceeds its budget, its probability is lowered first. If the setting still exceeds its
    /// budget, it is treated like a setting whose queues grow.
    fn settle(&self, mut setting: Setting) -> Option<(Setting, Option<Vec<f64>>)> {
        for _ in 0..EXAMINATIONS {
            let examined = self.runs.examine(setting.policy())?;
            if examined.percentiles.is_none() || setting.keeps(examined.hedged) {
                return Some((setting, examined.percentiles));
            }
            setting.probability *= setting.budget / examined.hedged;
            setting = setting.rounded();
        }
        Some((setting, None))
    }

    /// Learns the delay and the probability for the budget of a setting, starting from that
    /// setting. In the second half of the pilots the delay is fixed, and only the probability is
    /// adjusted to stay within the budget, because more copies make more queries wait for longer
    /// than the delay.
    fn learn(&self, mut setting: Setting) -> Option<Setting> {
        for number in 0..self.pilots {
            let pilot = self.runs.pilot(setting.policy(), number)?;
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

/// Whether `these` percentiles are lower than `those` by more than can be explained by chance. Both
/// percentiles of a pair come from the same draws.
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
