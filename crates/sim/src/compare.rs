//! Runs several policies through one experiment, with common random numbers.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::candidate::Candidate;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::outcome::{About, Outcome};
use crate::parallel::{self, Plan};
use crate::run::run;
use crate::setup::Setup;
use crate::tally::Tally;
use crate::train;

/// The percentiles that are reported by default.
pub const PERCENTILES: [f64; 4] = [50.0, 95.0, 99.0, 99.9];

/// Returns the number of requests that [`compare`] counts in [`Plan::progress`], including those
/// for training.
pub fn total(experiment: &Experiment, candidates: &[Candidate]) -> u64 {
    let runs = u64::from(experiment.replications) * candidates.len() as u64;
    experiment.requests * runs + train::total(experiment, candidates)
}

pub(crate) fn check(experiment: &Experiment, candidates: &[Candidate]) -> Result<(), Error> {
    candidates.iter().try_for_each(|candidate| {
        let candidate = *candidate;
        Setup { experiment, candidate, replication: 0 }.check()
    })
}

/// Runs all candidates. Returns `None` if [`Plan::stop`] stopped it.
pub fn compare(
    experiment: &Experiment,
    candidates: &[Candidate],
    plan: &Plan<'_>,
) -> Result<Option<Vec<Outcome>>, Error> {
    check(experiment, candidates)?;
    let Some(trained) = train::all(experiment, candidates, plan) else { return Ok(None) };
    let replications = experiment.replications as usize;
    let done = parallel::each(candidates.len() * replications, plan.threads, |job| {
        let index = job / replications;
        let of = |trained: train::Trained| Candidate::Policy(trained.policy);
        let candidate = trained[index].map_or(candidates[index], of);
        let replication = (job % replications) as u32;
        timed(&Setup { experiment, candidate, replication }, plan)
    });
    let Some(done) = done else { return Ok(None) };
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(candidates.len());
    let all = candidates.iter().zip(&trained).zip(done.chunks(replications));
    for ((candidate, trained), runs) in all {
        let tallies: Vec<Tally> = runs.iter().map(|(tally, _)| tally.clone()).collect();
        let about = About {
            experiment,
            candidate: *candidate,
            trained: *trained,
            percentiles: plan.percentiles,
            elapsed_s: runs.iter().map(|(_, seconds)| seconds).sum(),
        };
        let mut outcome = Outcome::new(about, &tallies);
        if let Some(first) = outcomes.first() {
            outcome.compare(first);
        }
        outcomes.push(outcome);
    }
    Ok(Some(outcomes))
}

fn timed(setup: &Setup<'_>, plan: &Plan<'_>) -> Option<(Tally, f64)> {
    #[allow(clippy::disallowed_methods)] // how long simulating takes is about real time
    let start = Instant::now();
    let mut left = setup.experiment.requests;
    let tally = run(setup, &mut |arrived| {
        let counted = arrived.min(left);
        left -= counted;
        plan.progress.fetch_add(counted, Ordering::Relaxed);
        !plan.stop.load(Ordering::Relaxed)
    })?;
    plan.progress.fetch_add(left, Ordering::Relaxed);
    Some((tally, start.elapsed().as_secs_f64()))
}
