//! The exponential distribution: its mean is that of the samples. Maximum likelihood. Cost: O(n).

use super::{Fit, Fitted, Parameters, Sample};

/// An exponential distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exponential {
    /// The mean, in the unit of the samples.
    pub mean: f64,
}

/// Fits an exponential distribution.
pub fn exponential(sample: &Sample) -> Fit {
    Fit::of(Parameters::Exponential(Exponential { mean: sample.mean() }), sample)
}

impl Fitted for Exponential {
    fn cdf(&self, x: f64) -> f64 {
        -(-x / self.mean).exp_m1()
    }

    fn ln_density(&self, x: f64) -> f64 {
        -x / self.mean - self.mean.ln()
    }

    fn mean(&self) -> f64 {
        self.mean
    }

    fn parameters(&self) -> u32 {
        1
    }

    fn text(&self) -> Option<String> {
        Some(format!("exp:{}", self.mean))
    }
}
