//! Fits a mixture of two Erlang distributions of the same order, a flexible phase-type
//! distribution. Order 1 is the hyper-exponential distribution, fitted by maximum likelihood. The
//! density of a higher order has either two humps or one asymmetric hump.
//!
//! Expectation maximization runs for each of a few orders, from two starting points: one with two
//! equal halves, and one with a rare slow branch. Each run has at most [`ITERATIONS`] iterations,
//! and uses at most [`POINTS`] samples, evenly spread over the ranks. The order with the highest
//! likelihood on these samples wins; the reported likelihood is that of all samples.
//!
//! Source: Thümmler, Buchholz and Telek, "A novel approach for phase-type fitting with the EM
//! algorithm", 2006; the restriction to a common order and two branches is ours. Cost: at most 6.4
//! million evaluations of the exponential function, and O(n).

use super::{FitError, Law, Sample};
use crate::models::Hyper;

const ORDERS: [u32; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
const ITERATIONS: u32 = 200;
const POINTS: usize = 2000;
/// The iteration stops when the probability of a branch falls below this, because the branch would
/// shrink to a single sample.
const RAREST: f64 = 1e-4;

/// Fits a mixture of two Erlang distributions.
pub(super) fn erlangs(sample: &Sample) -> Result<(Law, Option<String>), FitError> {
    sample.spread()?;
    let points = sample.thinned(POINTS);
    let starts = [0.5, 0.95].map(|share| cut_at(&points, share));
    let candidates = ORDERS.iter().flat_map(|&order| starts.map(|start| (order, start)));
    let fitted = candidates.map(|(order, start)| {
        let rates = start.rates.map(|rate| f64::from(order) * rate);
        let stage = maximize(f64::from(order), Hyper { rates, ..start }, &points);
        let law = Law::Erlangs { order, stage };
        let likelihood: f64 = points.iter().map(|&x| law.ln_density(x)).sum();
        (likelihood, law)
    });
    let best = fitted.max_by(|a, b| a.0.total_cmp(&b.0));
    let (_, law) = best.ok_or(FitError::NoSpread(sample.least()))?;
    Ok((law, None))
}

/// Returns a first guess for order 1. It assigns this share of the sorted points (of which there
/// are two or more) to one branch, and the rest to the other.
fn cut_at(points: &[f64], share: f64) -> Hyper {
    let cut = ((share * points.len() as f64) as usize).clamp(1, points.len() - 1);
    let (low, high) = points.split_at(cut);
    let rate = |part: &[f64]| part.len() as f64 / part.iter().sum::<f64>();
    Hyper { probability: share, rates: [rate(low), rate(high)] }
}

fn maximize(order: f64, mut law: Hyper, points: &[f64]) -> Hyper {
    for _ in 0..ITERATIONS {
        let next = step(order, law, points);
        let change = |a: f64, b: f64| (a - b).abs() > 1e-8 * a;
        let moved = change(law.probability, next.probability)
            || change(law.rates[0], next.rates[0])
            || change(law.rates[1], next.rates[1]);
        if !(RAREST..=1.0 - RAREST).contains(&next.probability) || !moved {
            break;
        }
        law = next;
    }
    if law.rates[0] < law.rates[1] {
        law.rates.swap(0, 1);
        law.probability = 1.0 - law.probability;
    }
    law
}

/// Runs one iteration: computes the probability that each point belongs to the first branch, then
/// the best branches for these probabilities.
fn step(order: f64, law: Hyper, points: &[f64]) -> Hyper {
    let [one, two] = law.rates;
    let odds = ((1.0 - law.probability) / law.probability).ln() + order * (two / one).ln();
    let (mut weight, mut weighted, mut total) = (0.0, 0.0, 0.0);
    for x in points {
        let first = 1.0 / (1.0 + (odds + (one - two) * x).exp());
        weight += first;
        weighted += first * x;
        total += x;
    }
    let count = points.len() as f64;
    let rates = [order * weight / weighted, order * (count - weight) / (total - weighted)];
    Hyper { probability: weight / count, rates }
}
