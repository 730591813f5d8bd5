//! Computes the confidence in the gain.
//!
//! There are two sources of uncertainty. First, the simulation is finite. Each replication yields
//! one gain, because both policies meet the same arrivals and draws in it. These gains give an
//! interval based on Student's t. Second, if the times are samples, another day would have given
//! different samples. To measure this effect, the same number of samples is drawn from them with
//! replacement many times (the bootstrap, Efron 1979). For each draw, the best policy, per-shard
//! queuing and the bound are simulated at the same arrival rate. The variance of their results,
//! minus the variance that the short runs explain, is the variance due to the samples. This
//! variance is included in the interval of the gain, in the confidence in the verdict, and in the
//! intervals of p99.
//!
//! This does not cover the gap between the model and reality. Advice depends on the assumptions
//! that `curtail advise` prints.
//!
//! If the times are samples, the cost is half of the simulation budget for the given load.
//! Otherwise there is no cost.

use curtail_dist::seed;
use curtail_kernel::Policy;
use curtail_kernel::hedge::Version;
use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;

use super::{FREEDOM, GainIntervals, Question, WORTH, figure, sized};
use crate::candidate::Candidate;
use crate::compare::{compare, total as compared};
use crate::error::Error;
use crate::experiment::Experiment;
use crate::figures::Figures;
use crate::outcome::Outcome;
use crate::parallel::{self, Plan};
use curtail_stats::student;

/// The number of times that the samples are resampled.
const WORLDS: usize = 16;

/// The simulation budget for all draws, expressed as a number of queries under per-shard queuing.
const QUERIES: f64 = 20e6;

/// Returns variants of this experiment whose samples are drawn from its own. The result is empty if
/// its times are distributions.
pub fn resampled(experiment: &Experiment) -> Vec<Experiment> {
    resampled_by(experiment, |rng| {
        let service = experiment.service.resampled(rng);
        let jitter = experiment.jitter.as_ref().and_then(|jitter| jitter.resampled(rng));
        (service.is_some() || jitter.is_some()).then(|| Experiment {
            service: service.unwrap_or_else(|| experiment.service.clone()),
            jitter: jitter.or_else(|| experiment.jitter.clone()),
            ..experiment.clone()
        })
    })
}

/// Returns experiments that are made from random draws and have the arrival rate of the given one.
pub(super) fn resampled_by(
    experiment: &Experiment,
    mut make: impl FnMut(&mut Pcg64Mcg) -> Option<Experiment>,
) -> Vec<Experiment> {
    let gap_ns = experiment.gap_ns();
    let one = |world: usize| {
        let stream = seed::stream(experiment.seed, &[b"resampled", &world.to_le_bytes()]);
        let made = make(&mut seed::rng(stream))?;
        let utilization = made.utilization * made.gap_ns() / gap_ns;
        let fits = utilization.is_finite() && utilization > 0.0;
        // Each world also has its own seed in the simulation.
        fits.then_some(Experiment { utilization, seed: stream, ..made })
    };
    (0..WORLDS).filter_map(one).collect()
}

/// Draws as many values as `of` contains, in blocks of consecutive values. A block may begin at any
/// value, and a block that reaches the last value continues with the first one (the circular block
/// bootstrap, Politis and Romano 1992).
pub(super) fn blocks(of: &[f64], block: usize, rng: &mut Pcg64Mcg) -> Vec<f64> {
    let count = of.len();
    let mut drawn = Vec::with_capacity(count + block);
    while drawn.len() < count {
        let start = (rng.next_u64() % count as u64) as usize;
        drawn.extend((0..block).map(|at| of[(start + at) % count]));
    }
    drawn.truncate(count);
    drawn
}

/// Returns the maximum number of requests that [`sure`] counts.
pub(super) fn total(question: &Question<'_>) -> u64 {
    question.resampled.iter().map(|of| compared(&world(question, of), &SIMULATED)).sum()
}

/// Candidates in each world. The most expensive policy stands in for the policy to be examined.
const SIMULATED: [Candidate; 3] = [
    Candidate::Policy(Policy::PSQ),
    Candidate::Policy(Policy::rescue(Version::Preempt)),
    Candidate::O1,
];

fn world(question: &Question<'_>, of: &Experiment) -> Experiment {
    sized(of, &SIMULATED, 1, QUERIES * question.effort / WORLDS as f64)
}

/// The confidence in the answer.
#[derive(Debug)]
pub(super) struct Sure {
    /// The confidence intervals of the gain of the best policy.
    pub(super) gain_ci95: GainIntervals,
    /// The probability that the verdict is right, including the randomness of the samples. `None`
    /// without samples.
    pub(super) confidence: Option<f64>,
    /// Half the width of p99's confidence interval: for per-shard queuing, the best policy, and the
    /// bound.
    pub(super) p99_half: [Option<f64>; 3],
}

/// The experiment at the given load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Here<'a> {
    pub(super) experiment: &'a Experiment,
    /// Its results for per-shard queuing, for the policy that hedges, and for the bound.
    pub(super) outcomes: [&'a Outcome; 3],
}

/// Computes the confidence in a policy that hedges. Returns `None` if it was stopped.
pub(super) fn sure(
    question: &Question<'_>,
    hedger: Candidate,
    here: Here<'_>,
    plan: &Plan<'_>,
) -> Result<Option<Sure>, Error> {
    let Here { experiment: here, outcomes } = here;
    let candidates = [SIMULATED[0], hedger, SIMULATED[2]];
    let worlds: Vec<Experiment> = question.resampled.iter().map(|of| world(question, of)).collect();
    let simulate = |at: usize| {
        let plan = Plan { threads: 1, ..*plan };
        compare(&worlds[at], &candidates, &plan).transpose()
    };
    let Some(done) = parallel::each(worlds.len(), plan.threads, simulate) else { return Ok(None) };
    let done: Vec<Vec<Outcome>> = done.into_iter().collect::<Result<_, _>>()?;
    let counted = |of: &Experiment| (of.requests - of.warm_up) as f64;
    let shorter = worlds.first().map_or(1.0, |world| counted(here) / counted(world));
    let [psq, best, _] = outcomes;
    let gains_of_runs = |percentile: f64| -> Option<Vec<f64>> {
        let pairs = psq.replications.iter().zip(&best.replications);
        let of = |figures: &Figures| figures.percentile(percentile);
        pairs.map(|(psq, best)| gain(of(psq), of(best))).collect()
    };
    let gains_of_worlds = |percentile: f64| -> Option<Vec<f64>> {
        let of = |world: &Vec<Outcome>| {
            gain(figure(&world[0], percentile), figure(&world[1], percentile))
        };
        done.iter().map(of).collect()
    };
    let gained = |percentile| gain(figure(psq, percentile), figure(best, percentile));
    let interval = |percentile: f64| {
        let (runs, worlds) = (gains_of_runs(percentile)?, gains_of_worlds(percentile)?);
        let (gain, half) = (gained(percentile)?, variances(&runs, &worlds, shorter)?.half_width());
        // A gain cannot exceed 100 %.
        Some([gain - half, (gain + half).min(1.0)])
    };
    let confidence = || {
        let gain = gained(99.0).filter(|_| !done.is_empty())?;
        let (runs, Some(worlds)) = (gains_of_runs(99.0)?, gains_of_worlds(99.0)) else {
            // Some worlds have no steady state, although the given one has one.
            let steady = |world: &&Vec<Outcome>| world[0].stable && world[1].stable;
            return Some(done.iter().filter(steady).count() as f64 / done.len() as f64);
        };
        Some(agreement(gain, &worlds, variances(&runs, &worlds, shorter)?))
    };
    let p99_half = [0, 1, 2].map(|at| {
        let runs: Option<Vec<f64>> =
            outcomes[at].replications.iter().map(|figures| figures.percentile(99.0)).collect();
        let worlds: Option<Vec<f64>> = done.iter().map(|world| figure(&world[at], 99.0)).collect();
        variances(&runs?, &worlds?, shorter).map(Variances::half_width)
    });
    Ok(Some(Sure { gain_ci95: GainIntervals::of(interval), confidence: confidence(), p99_half }))
}

/// Variances of a figure.
#[derive(Clone, Copy, Debug)]
struct Variances {
    /// The variance of the mean of the runs.
    by_runs: f64,
    /// Additional variance due to the samples.
    by_samples: f64,
    /// Variance due to chance within one world.
    of_world: f64,
}

/// Computes variances. `worlds` contains one run per world. Each of these is shorter than a run of
/// `runs` by the factor `shorter`.
fn variances(runs: &[f64], worlds: &[f64], shorter: f64) -> Option<Variances> {
    let of_run = student::variance(runs)?;
    let (by_runs, of_world) = (of_run / runs.len() as f64, of_run * shorter);
    let by_samples = (student::variance(worlds).unwrap_or(0.0) - of_world).max(0.0);
    Some(Variances { by_runs, by_samples, of_world })
}

impl Variances {
    /// Returns half the width of the 95 % confidence interval.
    fn half_width(self) -> f64 {
        let half = |freedom, variance: f64| student::quantile(freedom) * variance.sqrt();
        half(FREEDOM, self.by_runs).hypot(half(WORLDS - 1, self.by_samples))
    }
}

/// Returns the probability that the verdict on `gain` is right. It is the lower of two values. The
/// first depends on the distance of the gain from the threshold. The second is the share of worlds
/// that agree, or whose disagreement can be explained by chance within one world. The share matters
/// if the verdict depends on a few samples, which may be missing from a world.
fn agreement(gain: f64, worlds: &[f64], variances: Variances) -> f64 {
    let Variances { by_runs, by_samples, of_world } = variances;
    let error = (by_runs + by_samples).sqrt().max(f64::MIN_POSITIVE);
    let chance = student::quantile(FREEDOM) * of_world.sqrt();
    let (margin, side) = (gain - WORTH, (gain - WORTH).signum());
    let other = worlds.iter().filter(|&&world| side * (world - WORTH) < -chance).count();
    let share = 1.0 - other as f64 / worlds.len() as f64;
    student::below(FREEDOM, margin.abs() / error).min(share)
}

fn gain(psq: Option<f64>, ours: Option<f64>) -> Option<f64> {
    Some(1.0 - ours? / psq?).filter(|gain| gain.is_finite())
}
