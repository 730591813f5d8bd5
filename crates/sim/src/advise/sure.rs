//! How sure the gain is.
//!
//! Two things leave it open. The simulation is of finite length: each replication has a gain of its own,
//! of both policies on the same arrivals and draws, and Student's t of these gives an interval. And where
//! times are samples, others would have been drawn on another day: so as many are drawn from them, with
//! replacement, again and again (the bootstrap, Efron 1979). Each time the best policy, per-shard queuing
//! and the bound are simulated, at the same arrival rate. What these differ by, less what the chance of
//! such short runs explains, is the variance of the samples. It enters the interval of the gain, the
//! confidence of the verdict, and the intervals of p99.
//!
//! What it cannot know is how far the world is from the model: advice assumes what `curtail advise` says
//! that it assumes.
//!
//! Cost: half as many simulated queries as the load at hand, and only where there are samples.

use curtail_dist::seed;
use curtail_kernel::hedge::Version;
use curtail_kernel::{HedgeSpec, Policy};
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
use crate::student;

/// How often samples are drawn from the samples.
const WORLDS: usize = 16;

/// Simulated queries for all of them, in those of per-shard queuing.
const QUERIES: f64 = 20e6;

/// Experiments as this one, each of samples that are drawn from its samples; none where its times are
/// distributions.
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

/// Experiments that are made of random draws, at the arrival rate of this one.
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
        // Each has its own chance in the simulation, too.
        fits.then_some(Experiment { utilization, seed: stream, ..made })
    };
    (0..WORLDS).filter_map(one).collect()
}

/// As many times in blocks of neighbors that begin anywhere; the first one follows the last
/// (the circular block bootstrap, Politis and Romano 1992).
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

/// How many requests [`sure`] counts at most.
pub(super) fn total(question: &Question<'_>) -> u64 {
    question.resampled.iter().map(|of| compared(&world(question, of), &SIMULATED)).sum()
}

/// What is simulated in each: the dearest policy stands for the one that is asked about.
const SIMULATED: [Candidate; 3] = [
    Candidate::Policy(Policy::PSQ),
    Candidate::Policy(Policy::hedged(HedgeSpec::Rescue(Version::Preempt))),
    Candidate::O1,
];

fn world(question: &Question<'_>, of: &Experiment) -> Experiment {
    sized(of, &SIMULATED, 1, QUERIES * question.effort / WORLDS as f64)
}

/// How sure the answer is.
#[derive(Debug)]
pub(super) struct Sure {
    /// The intervals of what the best policy gains.
    pub(super) gain_ci95: GainIntervals,
    /// How likely the verdict is right, with the chance of the samples; none without samples.
    pub(super) confidence: Option<f64>,
    /// Half of the interval of p99: of per-shard queuing, the best policy, and the bound.
    pub(super) p99_half: [Option<f64>; 3],
}

/// How sure the answer is; none where it was stopped. `outcomes` are those of `here`, the load at hand:
/// of per-shard queuing, of `hedger`, and of the bound.
pub(super) fn sure(
    question: &Question<'_>,
    hedger: Candidate,
    (here, outcomes): (&Experiment, [&Outcome; 3]),
    plan: &Plan<'_>,
) -> Result<Option<Sure>, Error> {
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
        // No gain is more than all of p99.
        Some([gain - half, (gain + half).min(1.0)])
    };
    let confidence = || {
        let gain = gained(99.0).filter(|_| !done.is_empty())?;
        let (runs, Some(worlds)) = (gains_of_runs(99.0)?, gains_of_worlds(99.0)) else {
            // Some have no steady state, and this world has one.
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

/// The variances of a figure.
#[derive(Clone, Copy, Debug)]
struct Variances {
    /// Of the mean of the runs at hand.
    by_runs: f64,
    /// What the samples add.
    by_samples: f64,
    /// The chance in a world.
    of_world: f64,
}

/// `worlds` are of one run each, which is `shorter` by this factor than one of `runs`.
fn variances(runs: &[f64], worlds: &[f64], shorter: f64) -> Option<Variances> {
    let of_run = student::variance(runs)?;
    let (by_runs, of_world) = (of_run / runs.len() as f64, of_run * shorter);
    let by_samples = (student::variance(worlds).unwrap_or(0.0) - of_world).max(0.0);
    Some(Variances { by_runs, by_samples, of_world })
}

impl Variances {
    /// Half of the 95 % interval.
    fn half_width(self) -> f64 {
        let half = |freedom, variance: f64| student::quantile(freedom) * variance.sqrt();
        half(FREEDOM, self.by_runs).hypot(half(WORLDS - 1, self.by_samples))
    }
}

/// How likely the verdict on `gain` is right: by its distance from what is just worth it, and by the share
/// of worlds that have the same one, or whose own chance explains that they have another. The latter
/// counts where a few samples decide: they are drawn, or not.
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
