//! The Pareto distribution by maximum likelihood, and Hill's estimate of a tail's exponent.
//!
//! The minimum is the smallest sample, the exponent n/Σ ln(x/min). Hill's estimate is the same over
//! the largest samples only: it sees a heavy tail behind a body of any shape.
//!
//! Source: Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, ch. 20; Hill,
//! "A simple general approach to inference about the tail of a distribution", 1975. Cost: O(n).

use super::{Fit, FitError, Fitted, Parameters, Sample};

/// A Pareto distribution: P(X > x) = (min/x)^alpha from min on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pareto {
    /// The exponent, above 0; the mean is infinite for 1 or less, the variance for 2 or less.
    pub alpha: f64,
    /// The least value, in the unit of the samples.
    pub min: f64,
}

/// Fits a Pareto distribution.
pub fn pareto(sample: &Sample) -> Result<Fit, FitError> {
    sample.spread()?;
    let min = sample.least();
    let alpha = sample.average(|x| (x / min).ln()).recip();
    Ok(Fit::of(Parameters::Pareto(Pareto { alpha, min }), sample))
}

/// Hill's estimate of the exponent alpha of P(X > x) ~ x^(-alpha), from the `largest` (2 or more,
/// and fewer than all) samples. Its standard error is alpha/√largest, if that part is a Pareto tail
/// at all.
pub fn hill(sample: &Sample, largest: usize) -> Result<f64, FitError> {
    let all = sample.sorted();
    if largest < 2 || largest >= all.len() {
        return Err(FitError::BadTail { asked: largest, count: all.len() });
    }
    let (body, tail) = all.split_at(all.len() - largest);
    let start = body.last().copied().unwrap_or_default();
    let sum: f64 = tail.iter().map(|x| (x / start).ln()).sum();
    if sum > 0.0 { Ok(largest as f64 / sum) } else { Err(FitError::NoSpread(start)) }
}

impl Fitted for Pareto {
    fn cdf(&self, x: f64) -> f64 {
        -(self.alpha * (self.min / x).ln()).exp_m1()
    }

    fn ln_density(&self, x: f64) -> f64 {
        if x < self.min {
            return f64::NEG_INFINITY;
        }
        self.alpha.ln() - x.ln() - self.alpha * (x / self.min).ln()
    }

    fn mean(&self) -> f64 {
        if self.alpha > 1.0 { self.alpha * self.min / (self.alpha - 1.0) } else { f64::INFINITY }
    }

    fn parameters(&self) -> u32 {
        2
    }

    fn text(&self) -> Option<String> {
        Some(format!("pareto:{}:{}", self.alpha, self.min))
    }
}
