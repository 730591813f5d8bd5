//! How sure the gain is.
//!
//! Two things leave it open. The simulation is of finite length: each replication has a gain of its own,
//! of both policies on the same arrivals and draws, and Student's t of these gives an interval. And where
//! times are samples, others would have been drawn on another day: so as many are drawn from them, with
//! replacement, again and again (the bootstrap, Efron 1979), each time both policies are simulated, at the
//! same arrival rate, and the deviation of these gains is the standard error. Each of them is of one run,
//! so the chance of the simulation is in it as well.
//!
//! What it cannot know is how far the world is from the model: advice assumes what `curtail advise` says
//! that it assumes.
//!
//! Cost: half as many simulated queries as the load at hand, and only where there are samples.

use curtail_dist::seed;
use curtail_kernel::hedge::Version;
use curtail_kernel::{HedgeSpec, Policy};
use rand_pcg::Pcg64Mcg;

use super::{GainIntervals, Question, figure, sized};
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

/// How many requests [`intervals`] counts at most.
pub(super) fn total(question: &Question<'_>) -> u64 {
    question.resampled.iter().map(|of| compared(&world(question, of), &PAIR)).sum()
}

/// Per-shard queuing, and the dearest policy in place of the one that is asked about.
const PAIR: [Candidate; 2] = [
    Candidate::Policy(Policy::PSQ),
    Candidate::Policy(Policy::hedged(HedgeSpec::Rescue(Version::Preempt))),
];

fn world(question: &Question<'_>, of: &Experiment) -> Experiment {
    sized(of, &PAIR, 1, QUERIES * question.effort / WORLDS as f64)
}

/// The intervals of what `hedger` gains; none where it was stopped. `outcomes`: those of per-shard
/// queuing and of it at the load at hand.
pub(super) fn intervals(
    question: &Question<'_>,
    hedger: Candidate,
    outcomes: [&Outcome; 2],
    plan: &Plan<'_>,
) -> Result<Option<GainIntervals>, Error> {
    let [psq, best] = outcomes;
    if !(psq.stable && best.stable) {
        return Ok(Some(GainIntervals::default()));
    }
    let candidates = [PAIR[0], hedger];
    let worlds = &question.resampled;
    let simulate = |at: usize| {
        let plan = Plan { threads: 1, ..*plan };
        compare(&world(question, &worlds[at]), &candidates, &plan).transpose()
    };
    let Some(done) = parallel::each(worlds.len(), plan.threads, simulate) else { return Ok(None) };
    let done: Vec<Vec<Outcome>> = done.into_iter().collect::<Result<_, _>>()?;
    let interval = |percentile: f64| {
        let gain = gain(figure(psq, percentile), figure(best, percentile))?;
        let half = if done.is_empty() {
            let pairs = psq.replications.iter().zip(&best.replications);
            let of = |figures: &Figures| figures.percentile(percentile);
            let gains: Option<Vec<f64>> =
                pairs.map(|(psq, best)| self::gain(of(psq), of(best))).collect();
            student::half_width(&gains?)?
        } else {
            let of = |pair: &Vec<Outcome>| {
                self::gain(figure(&pair[0], percentile), figure(&pair[1], percentile))
            };
            let gains: Vec<f64> = done.iter().map(of).collect::<Option<_>>()?;
            // That of the mean of them, times the root of their number: that of one of them.
            student::half_width(&gains)? * (gains.len() as f64).sqrt()
        };
        Some([gain - half, gain + half])
    };
    Ok(Some(GainIntervals::of(interval)))
}

fn gain(psq: Option<f64>, ours: Option<f64>) -> Option<f64> {
    Some(1.0 - ours? / psq?).filter(|gain| gain.is_finite())
}
