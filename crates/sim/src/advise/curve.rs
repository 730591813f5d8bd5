//! Computes the p99 of per-shard queuing and of the best policy as a function of load, and the load
//! at which the two curves cross.

use curtail_kernel::hedge::LAEDGE;
use curtail_kernel::{Arguments, Policy};
use serde::Serialize;

use super::{Question, figure, sized};
use crate::candidate::Candidate;
use crate::compare::compare;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::outcome::{Outcome, Versus};
use crate::parallel::Plan;

/// The loads for which the curves are computed. If the given load is higher than all of these, it
/// is added.
const LOADS: [f64; 10] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// The highest of these loads.
const HIGHEST: f64 = LOADS[LOADS.len() - 1];

/// The number of bisection steps used to find the load at which the curves cross.
const HALVINGS: u32 = 3;

/// The maximum number of points of each curve.
const POINTS: f64 = (LOADS.len() + 1) as f64 + HALVINGS as f64;

/// The total simulation budget, expressed as a number of queries under per-shard queuing, and the
/// number of replications at each load.
const QUERIES: f64 = 60e6;
const REPLICATIONS: u32 = 4;

/// The p99s at one load, in the unit of the experiment. A p99 is `None` if its policy is unstable.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The load, as a utilization.
    pub utilization: f64,
    /// p99 of per-shard queuing.
    pub psq: Option<f64>,
    /// p99 of the policy that hedges.
    pub hedging: Option<f64>,
    /// Whether hedging is significantly faster: the 95 % confidence interval of the paired
    /// difference is below 0, or only hedging has a steady state.
    pub faster: bool,
}

/// The curves.
pub(super) struct Curve {
    pub(super) points: Vec<Point>,
    pub(super) stop_above: Option<f64>,
}

impl Curve {
    /// Returns the highest load of the curve.
    pub(super) fn highest(&self) -> f64 {
        self.points.last().map_or(HIGHEST, |point| point.utilization)
    }
}

impl Point {
    fn new(utilization: f64, outcomes: &[Outcome]) -> Self {
        let [psq, hedging] = [0, 1].map(|at| figure(&outcomes[at], 99.0));
        let versus = outcomes[1].versus_first.as_ref();
        let surely_less = |versus: &Versus| {
            let half_width = versus.ci95.percentile(99.0)?;
            Some(versus.difference.percentile(99.0)? + half_width < 0.0)
        };
        let faster = match (psq, hedging) {
            (Some(_), Some(_)) => versus.and_then(surely_less).unwrap_or(false),
            (psq, hedging) => psq.is_none() && hedging.is_some(),
        };
        Self { utilization, psq, hedging, faster }
    }

    /// Whether hedging has the lower p99, even if the difference may be due to chance.
    fn is_lower(&self) -> bool {
        match (self.psq, self.hedging) {
            (Some(psq), Some(hedging)) => hedging < psq,
            _ => self.faster,
        }
    }
}

/// Returns the two loads between which hedging ceases to be faster. Hedging is still faster at the
/// first load, but not at the second. The second load is `None` if there is no higher load. Returns
/// `None` if hedging is never faster. `pays_here` is the verdict at the given load, which is based
/// on more requests than the points of the curve.
fn end(points: &[Point], here: f64, pays_here: bool) -> Option<(f64, Option<f64>)> {
    let first = if pays_here {
        points.partition_point(|point| point.utilization <= here)
    } else {
        points.iter().position(|point| point.faster)?
    };
    let slow = points[first..].iter().position(|point| !point.faster).map(|at| first + at);
    let last = slow.unwrap_or(points.len()).checked_sub(1).map(|at| points[at].utilization);
    let from = if pays_here { last.unwrap_or(here).max(here) } else { last? };
    Some((from, slow.map(|at| points[at].utilization)))
}

/// Simulates a policy over a range of loads. Returns `None` if it was stopped.
pub(super) fn curve(
    question: &Question<'_>,
    hedger: Candidate,
    pays_here: bool,
    plan: &Plan<'_>,
) -> Result<Option<Curve>, Error> {
    let mut points = Vec::new();
    let here = question.experiment.utilization;
    for load in LOADS.into_iter().chain((here > HIGHEST).then_some(here)) {
        match point(question, hedger, load, plan)? {
            Some(point) => points.push(point),
            None => return Ok(None),
        }
    }
    let Some((mut from, to)) = end(&points, here, pays_here) else {
        return Ok(Some(Curve { points, stop_above: None }));
    };
    let Some(mut to) = to else {
        return Ok(Some(Curve { points, stop_above: Some(from) }));
    };
    // Bisect by the sign of the difference, to find the most likely crossing. A test of
    // significance would stop at a lower load.
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(from, to);
        let Some(point) = point(question, hedger, middle, plan)? else { return Ok(None) };
        if point.is_lower() {
            from = middle;
        } else {
            to = middle;
        }
        points.push(point);
    }
    points.sort_by(|a, b| a.utilization.total_cmp(&b.utilization));
    Ok(Some(Curve { points, stop_above: Some(f64::midpoint(from, to)) }))
}

fn point(
    question: &Question<'_>,
    hedger: Candidate,
    utilization: f64,
    plan: &Plan<'_>,
) -> Result<Option<Point>, Error> {
    let candidates = [Candidate::Policy(Policy::PSQ), hedger];
    let experiment = at(question, utilization);
    let outcomes = compare(&experiment, &candidates, plan)?;
    Ok(outcomes.map(|outcomes| Point::new(utilization, &outcomes)))
}

/// Returns the experiment at a load. The number of requests is the same for all policies, because
/// the best one is still unknown when the work is planned.
fn at(question: &Question<'_>, utilization: f64) -> Experiment {
    let experiment = Experiment { utilization, ..question.experiment.clone() };
    let queries = QUERIES * question.effort / POINTS;
    sized(&experiment, &PAIR, REPLICATIONS, queries)
}

/// Per-shard queuing, and a stand-in for the policy that is simulated.
const PAIR: [Candidate; 2] = [
    Candidate::Policy(Policy::PSQ),
    Candidate::Policy(Policy::hedged(LAEDGE.with(Arguments::NONE))),
];

/// Returns the maximum number of requests that the curves simulate.
pub(super) fn total(question: &Question<'_>) -> u64 {
    crate::compare::total(&at(question, question.experiment.utilization), &PAIR) * POINTS as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(faster: &[bool]) -> Vec<Point> {
        let point = |(at, &faster): (u32, &bool)| {
            let utilization = f64::from(at + 1) / 10.0;
            Point { utilization, psq: Some(2.0), hedging: Some(1.0), faster }
        };
        (0..).zip(faster).map(point).collect()
    }

    /// The last load at which hedging is faster, and the load of the next point.
    type End = Option<(f64, Option<f64>)>;

    /// Checks the load at which hedging ceases to be faster, for several curves. `pays` is the
    /// verdict at the load 0.25.
    #[track_caller]
    fn ends(pays: bool, curves: &[(&[bool], End)]) {
        for &(faster, expected) in curves {
            assert_eq!(end(&points(faster), 0.25, pays), expected, "{faster:?}");
        }
    }

    #[test]
    fn hedging_ends_where_it_first_ceases_to_be_faster() {
        let [yes, no] = [true, false];
        let curves = [
            (&[yes, yes, no, no][..], Some((0.2, Some(0.3)))),
            // At a higher load, hedging seems to be faster again by chance.
            (&[yes, yes, no, yes], Some((0.2, Some(0.3)))),
            (&[no, yes, yes, yes], Some((0.4, None))),
            (&[no, no, no], None),
        ];
        ends(false, &curves);
    }

    #[test]
    fn if_hedging_pays_here_it_ends_at_a_higher_load() {
        let [yes, no] = [true, false];
        let curves = [
            (&[yes, no, yes, no][..], Some((0.3, Some(0.4)))),
            (&[yes, yes, no, no], Some((0.25, Some(0.3)))),
            (&[no, no, no, no], Some((0.25, Some(0.3)))),
            (&[no, no], Some((0.25, None))),
        ];
        ends(true, &curves);
        assert_eq!(end(&points(&[no]), 0.05, true), Some((0.05, Some(0.1))));
    }
}
