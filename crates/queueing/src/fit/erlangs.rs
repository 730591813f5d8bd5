//! A mixture of two Erlang distributions of the same order: phase-type, and flexible. Order 1 is
//! the hyper-exponential by maximum likelihood; higher orders have two humps, or one with a heavy
//! side.
//!
//! Expectation maximization for each of a few orders and from two starts (halves; a rare slow
//! branch), at most [`ITERATIONS`] times each, on at most [`POINTS`] samples that are evenly spread
//! over the ranks. The order with the highest likelihood of these wins; the likelihood that is
//! reported is of all samples.
//!
//! Source: Thümmler, Buchholz and Telek, "A novel approach for phase-type fitting with the EM
//! algorithm", 2006; a common order and two branches are our restriction. Cost: bounded, at most
//! 6.4 million exponentials, and O(n).

use super::hyper::ln_of_mixture;
use statrs::function::gamma::ln_gamma;

use super::{Fit, FitError, Fitted, Parameters, Sample};
use crate::special::gamma_cdf;

/// A mixture of two Erlang distributions: sums of `order` exponential stages of one rate or the
/// other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Erlangs {
    /// The number of stages of either branch.
    pub order: u32,
    /// The probability of the first branch, from 0 to 1.
    pub probability: f64,
    /// The rates of one stage of the first and of the second branch, per unit of the samples; the
    /// first is the higher.
    pub rates: [f64; 2],
}

const ORDERS: [u32; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
const ITERATIONS: u32 = 200;
const POINTS: usize = 2000;
/// A branch with less than this probability is left as it is: it would shrink to a single sample.
const RAREST: f64 = 1e-4;

/// Fits a mixture of two Erlang distributions.
pub fn erlangs(sample: &Sample) -> Result<Fit, FitError> {
    sample.spread()?;
    let points = sample.thinned(POINTS);
    let starts = [0.5, 0.95].map(|share| Start::cut_at(&points, share));
    let candidates =
        ORDERS.iter().flat_map(|&order| starts.iter().map(move |start| start.branches(order)));
    let fitted = candidates.map(|start| {
        let law = maximize(start, &points);
        let likelihood: f64 = points.iter().map(|&x| law.ln_density(x)).sum();
        (likelihood, law)
    });
    let best = fitted.max_by(|a, b| a.0.total_cmp(&b.0));
    let (_, law) = best.ok_or(FitError::NoSpread(sample.least()))?;
    Ok(Fit::of(Parameters::Erlangs(law), sample))
}

/// A first guess: the smaller samples in one branch, the larger in the other.
struct Start {
    share: f64,
    means: [f64; 2],
}

impl Start {
    /// Needs two or more sorted points.
    fn cut_at(points: &[f64], share: f64) -> Self {
        let cut = ((share * points.len() as f64) as usize).clamp(1, points.len() - 1);
        let (low, high) = points.split_at(cut);
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        Self { share, means: [mean(low), mean(high)] }
    }

    fn branches(&self, order: u32) -> Erlangs {
        let rates = self.means.map(|mean| f64::from(order) / mean);
        Erlangs { order, probability: self.share, rates }
    }
}

fn maximize(mut law: Erlangs, points: &[f64]) -> Erlangs {
    for _ in 0..ITERATIONS {
        let next = step(&law, points);
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

/// One round: how likely each point is to be of the first branch, then the best branches for that.
fn step(law: &Erlangs, points: &[f64]) -> Erlangs {
    let order = f64::from(law.order);
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
    Erlangs { order: law.order, probability: weight / count, rates }
}

impl Fitted for Erlangs {
    fn cdf(&self, x: f64) -> f64 {
        let [one, two] = self.rates.map(|rate| gamma_cdf(f64::from(self.order), rate * x));
        self.probability * one + (1.0 - self.probability) * two
    }

    fn ln_density(&self, x: f64) -> f64 {
        let order = f64::from(self.order);
        let [one, two] = self.rates.map(|rate| {
            let y = rate * x;
            (order - 1.0) * y.ln() - y - ln_gamma(order) + rate.ln()
        });
        ln_of_mixture(self.probability, one, two)
    }

    fn mean(&self) -> f64 {
        let [one, two] = self.rates.map(|rate| f64::from(self.order) / rate);
        self.probability * one + (1.0 - self.probability) * two
    }

    fn parameters(&self) -> u32 {
        4
    }

    fn text(&self) -> Option<String> {
        None
    }
}
