//! The gamma distribution by maximum likelihood: the shape a solves ln a - ψ(a) = ln x̄ - mean of
//! ln x, whose left side falls from ∞ to 0; it lies between 1/(2a) and 1/a, which brackets the
//! root.
//!
//! Source: Minka, "Estimating a Gamma distribution", 2002, for the equation. Cost: O(n), and
//! O(√shape) for each sample's place in the distribution.

use statrs::function::gamma::{digamma, ln_gamma};

use super::{Fit, FitError, Fitted, Parameters, Sample};
use crate::solve;
use crate::special::gamma_cdf;

/// A gamma distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gamma {
    /// The shape, 1/CV²; above 0.
    pub shape: f64,
    /// The mean divided by the shape, in the unit of the samples.
    pub scale: f64,
}

/// Fits a gamma distribution.
pub fn gamma(sample: &Sample) -> Result<Fit, FitError> {
    sample.spread()?;
    let gap = sample.mean().ln() - sample.mean_ln();
    // Below this, the difference holds too few digits.
    if gap < 1e-10 {
        return Err(FitError::NoSpread(sample.least()));
    }
    let excess = |shape: f64| shape.ln() - digamma(shape) - gap;
    let shape = solve::root(excess, 0.5 / gap, 1.0 / gap);
    let scale = sample.mean() / shape;
    Ok(Fit::of(Parameters::Gamma(Gamma { shape, scale }), sample))
}

impl Fitted for Gamma {
    fn cdf(&self, x: f64) -> f64 {
        gamma_cdf(self.shape, x / self.scale)
    }

    fn ln_density(&self, x: f64) -> f64 {
        let y = x / self.scale;
        (self.shape - 1.0) * y.ln() - y - ln_gamma(self.shape) - self.scale.ln()
    }

    fn mean(&self) -> f64 {
        self.shape * self.scale
    }

    fn parameters(&self) -> u32 {
        2
    }

    fn text(&self) -> Option<String> {
        Some(format!("gamma:{}:{}", self.mean(), self.shape.sqrt().recip()))
    }
}
