//! The log-normal distribution: mean and deviation of the logarithms. Maximum likelihood. Cost:
//! O(n).

use super::{Fit, FitError, Fitted, Parameters, Sample};
use crate::special::normal_cdf;

/// A log-normal distribution: ln X is normal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    /// The mean of ln X; e^location is the median, in the unit of the samples.
    pub location: f64,
    /// The standard deviation of ln X; above 0.
    pub deviation: f64,
}

/// Fits a log-normal distribution.
pub fn lognormal(sample: &Sample) -> Result<Fit, FitError> {
    sample.spread()?;
    let location = sample.mean_ln();
    let deviation = sample.average(|x| (x.ln() - location).powi(2)).sqrt();
    if deviation == 0.0 {
        // They differ, but not in the digits of their logarithms.
        return Err(FitError::NoSpread(sample.least()));
    }
    Ok(Fit::of(Parameters::LogNormal(LogNormal { location, deviation }), sample))
}

impl Fitted for LogNormal {
    fn cdf(&self, x: f64) -> f64 {
        normal_cdf((x.ln() - self.location) / self.deviation)
    }

    fn ln_density(&self, x: f64) -> f64 {
        const LN_ROOT_TAU: f64 = 0.918_938_533_204_672_8;
        let z = (x.ln() - self.location) / self.deviation;
        -0.5 * z * z - LN_ROOT_TAU - self.deviation.ln() - x.ln()
    }

    fn mean(&self) -> f64 {
        (self.location + 0.5 * self.deviation.powi(2)).exp()
    }

    fn parameters(&self) -> u32 {
        2
    }

    fn text(&self) -> Option<String> {
        let cv = self.deviation.powi(2).exp_m1().sqrt();
        Some(format!("lognormal:{}:{cv}", self.mean()))
    }
}
