//! p99 of per-shard queuing and of the best policy over the load, and where they cross.

use curtail_kernel::Policy;
use curtail_kernel::hedge::Cancellation;
use serde::Serialize;

use super::{Question, figure, sized};
use crate::candidate::Candidate;
use crate::compare::{Plan, compare};
use crate::error::Error;
use crate::experiment::Experiment;

/// Loads that are looked at in any case; the load at hand as well, where it is higher.
const LOADS: [f64; 10] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// The highest of them.
const HIGHEST: f64 = LOADS[LOADS.len() - 1];

/// Halvings of the interval in which the curves cross.
const HALVINGS: u32 = 3;

/// Points of each curve, at most.
const POINTS: f64 = (LOADS.len() + 1) as f64 + HALVINGS as f64;

/// Simulated queries in all, in those of per-shard queuing, and replications at each load.
const QUERIES: f64 = 40e6;
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
    /// Is hedging faster here?
    fn pays(&self) -> bool {
        match (self.psq, self.hedging) {
            (Some(psq), Some(hedging)) => hedging < psq,
            (psq, hedging) => psq.is_none() && hedging.is_some(),
        }
    }
}

/// Follows a policy over the load; none where it was stopped.
pub(super) fn curve(
    question: &Question<'_>,
    hedger: Candidate,
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
    let last = points.iter().rposition(Point::pays);
    let Some(last) = last else { return Ok(Some(Curve { points, stop_above: None })) };
    let mut from = points[last].utilization;
    let Some(mut to) = points.get(last + 1).map(|point| point.utilization) else {
        return Ok(Some(Curve { points, stop_above: Some(from) }));
    };
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(from, to);
        let Some(point) = point(question, hedger, middle, plan)? else { return Ok(None) };
        if point.pays() {
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
    let candidates = [Candidate::Policy(Policy::PerShardQueue), hedger];
    let experiment = at(question, utilization);
    let outcomes = compare(&experiment, &candidates, plan)?;
    Ok(outcomes.map(|outcomes| Point {
        utilization,
        psq: figure(&outcomes[0], 99.0),
        hedging: figure(&outcomes[1], 99.0),
    }))
}

/// The experiment at a load. As large whatever the policy: nobody knows yet which is the best one
/// when the work is laid out.
fn at(question: &Question<'_>, utilization: f64) -> Experiment {
    let experiment = Experiment { utilization, ..question.experiment.clone() };
    let queries = QUERIES * question.effort / POINTS;
    sized(&experiment, &PAIR, REPLICATIONS, queries)
}

/// Per-shard queuing, and a policy in place of the one that is followed.
const PAIR: [Candidate; 2] = [
    Candidate::Policy(Policy::PerShardQueue),
    Candidate::Policy(Policy::Laedge(Cancellation::Plain)),
];

/// How many requests the curves take at most.
pub(super) fn total(question: &Question<'_>) -> u64 {
    crate::compare::total(&at(question, question.experiment.utilization), &PAIR) * POINTS as u64
}
