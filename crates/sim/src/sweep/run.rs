//! Runs the points of a grid.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use super::error::Error;
use super::grid::Grid;
use crate::candidate::Candidate;
use crate::compare::{self, compare, total};
use crate::outcome::Outcome;
use crate::parallel::{self, Plan};

/// Checks every point before anything runs. Tells, for each, how many requests it will count and
/// how many queries and failures it simulates.
pub(super) fn check(grid: &Grid, candidates: &[Candidate]) -> Result<Vec<(u64, f64)>, Error> {
    // A policy fits the servers or not, whatever the load; making one takes longer than all else.
    let mut fits = BTreeSet::new();
    let mut lengths = Vec::with_capacity(grid.points());
    for point in 0..grid.points() {
        let experiment = grid.experiment(point)?;
        if fits.insert((experiment.servers.len(), experiment.slots, experiment.queue)) {
            compare::check(&experiment, candidates).map_err(|error| grid.wrong(point, &error))?;
        }
        let requests = total(&experiment, candidates);
        lengths.push((requests, requests as f64 * experiment.events_per_request()));
    }
    Ok(lengths)
}

/// Runs some points, and hands over the outcomes of each as soon as they are there; `done` says
/// whether to go on. The outcomes of a point do not depend on the number of threads; the order in
/// which points are done does. False where it was stopped.
pub(super) fn run(
    grid: &Grid,
    points: &[usize],
    candidates: &[Candidate],
    plan: &Plan<'_>,
    done: impl FnMut(usize, Vec<Outcome>) -> bool + Send,
) -> Result<bool, Error> {
    let Some(&first) = points.first() else { return Ok(true) };
    // Points of fewer runs than threads go side by side, so that no thread is idle.
    let runs = candidates.len() * grid.experiment(first)?.replications as usize;
    let abreast = plan.threads.div_ceil(runs.max(1));
    let (done, failure) = (Mutex::new(done), Mutex::new(None));
    let one = |job: usize| {
        let point = points[job];
        let plan = Plan { threads: plan.threads.div_ceil(abreast), ..*plan };
        let outcomes = grid.experiment(point).and_then(|experiment| {
            compare(&experiment, candidates, &plan).map_err(|error| grid.wrong(point, &error))
        });
        let goes_on = match outcomes {
            Ok(None) => false,
            // What is done is kept, even after the word to stop.
            Ok(Some(outcomes)) => done.lock().expect("no panic")(point, outcomes),
            Err(error) => {
                failure.lock().expect("no panic").get_or_insert(error);
                false
            }
        };
        if !goes_on {
            // Points that run beside this one end as well.
            plan.stop.store(true, Ordering::Relaxed);
        }
        goes_on.then_some(())
    };
    let all = parallel::each(points.len(), abreast, one);
    match failure.into_inner().expect("no panic") {
        Some(error) => Err(error),
        None => Ok(all.is_some()),
    }
}
