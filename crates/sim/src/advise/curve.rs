//! p99 of per-shard queuing and of the best policy over the load, and where they cross.

use curtail_kernel::hedge::Cancellation;
use curtail_kernel::{HedgeSpec, Policy};
use serde::Serialize;

use super::{Question, figure, sized};
use crate::candidate::Candidate;
use crate::compare::compare;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::outcome::{Outcome, Versus};
use crate::parallel::Plan;

/// Loads that are looked at in any case; the load at hand as well, where it is higher.
const LOADS: [f64; 10] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// The highest of them.
const HIGHEST: f64 = LOADS[LOADS.len() - 1];

/// Halvings of the interval in which the curves cross.
const HALVINGS: u32 = 3;

/// Points of each curve, at most.
const POINTS: f64 = (LOADS.len() + 1) as f64 + HALVINGS as f64;

/// Simulated queries in all, in those of per-shard queuing, and replications at each load.
const QUERIES: f64 = 60e6;
const REPLICATIONS: u32 = 4;

/// p99 at a load, in the unit of the experiment; none where a policy is unstable.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The load.
    pub utilization: f64,
    /// Of per-shard queuing.
    pub psq: Option<f64>,
    /// Of the policy that hedges.
    pub hedging: Option<f64>,
    /// Is hedging faster, beyond chance? That is where the 95 % confidence interval of the paired
    /// difference says so, or where hedging alone has a steady state.
    pub faster: bool,
}

/// The curves.
pub(super) struct Curve {
    pub(super) points: Vec<Point>,
    pub(super) stop_above: Option<f64>,
}

impl Curve {
    /// The highest load that was looked at.
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

    /// Is the figure of hedging lower, by chance or not?
    fn is_lower(&self) -> bool {
        match (self.psq, self.hedging) {
            (Some(psq), Some(hedging)) => hedging < psq,
            _ => self.faster,
        }
    }
}

/// Where hedging ceases to be faster: it is up to the first load, and it is no more at the second,
/// or no load beyond was looked at. None where it never is. `pays_here` is what is known of the load at
/// hand, with more requests than there are at any of the points.
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

/// Follows a policy over the load; none where it was stopped.
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
    // In between, the likeliest crossing: what is sure begins to end earlier.
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

/// The experiment at a load. As large whatever the policy: the best one is not known
/// when the work is laid out.
fn at(question: &Question<'_>, utilization: f64) -> Experiment {
    let experiment = Experiment { utilization, ..question.experiment.clone() };
    let queries = QUERIES * question.effort / POINTS;
    sized(&experiment, &PAIR, REPLICATIONS, queries)
}

/// Per-shard queuing, and a policy in place of the one that is followed.
const PAIR: [Candidate; 2] = [
    Candidate::Policy(Policy::PSQ),
    Candidate::Policy(Policy::hedged(HedgeSpec::Laedge(Cancellation::Plain))),
];

/// How many requests the curves take at most.
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

    /// Where hedging ends, and the load of the next point.
    type End = Option<(f64, Option<f64>)>;

    /// Checks where hedging ends on some curves; at a load of 0.25 it pays, or not.
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
            // Chance has it that it seems faster once more.
            (&[yes, yes, no, yes], Some((0.2, Some(0.3)))),
            (&[no, yes, yes, yes], Some((0.4, None))),
            (&[no, no, no], None),
        ];
        ends(false, &curves);
    }

    #[test]
    fn where_it_pays_here_it_ends_beyond() {
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
