//! The Weibull distribution by maximum likelihood: the shape k solves
//! Σ xᵏ ln x / Σ xᵏ - 1/k = mean of ln x, whose left side rises; then scaleᵏ is the mean of xᵏ.
//!
//! Source: Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, ch. 21. Cost:
//! O(n) with a factor of about 60.

use statrs::function::gamma::gamma;

use super::{Fit, FitError, Fitted, Parameters, Sample};
use crate::solve;

/// A Weibull distribution: P(X > x) = e^(-(x/scale)^shape).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weibull {
    /// The shape, above 0; below 1 the tail is heavier than exponential.
    pub shape: f64,
    /// The 63rd percentile, in the unit of the samples.
    pub scale: f64,
}

/// The shapes that are looked for: those that `curtail-dist` reads, as far as they can be told
/// apart.
const SHAPES: (f64, f64) = (1e-3, 1e4);

/// Fits a Weibull distribution.
pub fn weibull(sample: &Sample) -> Result<Fit, FitError> {
    sample.spread()?;
    // In units of the largest, no power overflows.
    let unit = sample.largest();
    let mean_ln = sample.mean_ln() - unit.ln();
    let excess = |shape: f64| {
        let (mut powers, mut weighted) = (0.0, 0.0);
        for x in sample.sorted() {
            let ln = (x / unit).ln();
            let power = (shape * ln).exp();
            powers += power;
            weighted += power * ln;
        }
        weighted / powers - 1.0 / shape - mean_ln
    };
    let (low, high) = SHAPES;
    if excess(high) <= 0.0 {
        return Err(FitError::NoSpread(sample.least()));
    }
    let shape = solve::root(|ln: f64| excess(ln.exp()), low.ln(), high.ln()).exp();
    let scale = unit * sample.average(|x| (x / unit).powf(shape)).powf(1.0 / shape);
    Ok(Fit::of(Parameters::Weibull(Weibull { shape, scale }), sample))
}

impl Fitted for Weibull {
    fn cdf(&self, x: f64) -> f64 {
        -(-(x / self.scale).powf(self.shape)).exp_m1()
    }

    fn ln_density(&self, x: f64) -> f64 {
        let ln = (x / self.scale).ln();
        self.shape.ln() + (self.shape - 1.0) * ln - (self.shape * ln).exp() - self.scale.ln()
    }

    fn mean(&self) -> f64 {
        self.scale * gamma(1.0 + 1.0 / self.shape)
    }

    fn parameters(&self) -> u32 {
        2
    }

    fn text(&self) -> Option<String> {
        Some(format!("weibull:{}:{}", self.shape, self.scale))
    }
}
