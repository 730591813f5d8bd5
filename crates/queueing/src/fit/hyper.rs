//! The hyper-exponential distribution of two phases, by moments.
//!
//! By three moments where there is such a distribution. Third moments of samples are dominated by
//! the largest few, so there may be none: then by two moments, with phases that contribute equally
//! to the mean. Where the samples vary less than an exponential, neither exists, and that is an
//! error.
//!
//! Source: document 004, Takeaway 4; Whitt, "Approximating a point process by a renewal process,
//! I", 1982. Cost: O(n).

use super::{Fit, FitError, Fitted, Parameters, Sample};
use crate::models::Hyper;

/// Fits a hyper-exponential distribution by three moments, or by two and balanced means where no
/// three-moment fit exists; the variant of [`Parameters`] says which.
pub fn hyper(sample: &Sample) -> Result<Fit, FitError> {
    let mean = sample.mean();
    // In units of the mean, so that third powers stay within what numbers hold.
    let moment = |k: i32| sample.average(|x| (x / mean).powi(k));
    let Some(scaled) = Hyper::from_moments([1.0, moment(2), moment(3)]) else {
        return hyper_balanced(sample);
    };
    let law = Hyper { rates: scaled.rates.map(|rate| rate / mean), ..scaled };
    Ok(Fit::of(Parameters::Hyper(law), sample))
}

/// Fits a hyper-exponential distribution with balanced means by two moments.
pub fn hyper_balanced(sample: &Sample) -> Result<Fit, FitError> {
    let scv = sample.scv();
    if scv <= 1.0 {
        return Err(FitError::TooRegular(scv));
    }
    let law = Hyper::balanced(sample.mean(), scv).map_err(|_| FitError::TooRegular(scv))?;
    Ok(Fit::of(Parameters::HyperBalanced(law), sample))
}

impl Fitted for Hyper {
    fn cdf(&self, x: f64) -> f64 {
        let [one, two] = self.rates.map(|rate| -(-rate * x).exp_m1());
        self.probability * one + (1.0 - self.probability) * two
    }

    fn ln_density(&self, x: f64) -> f64 {
        let [one, two] = self.rates.map(|rate| rate.ln() - rate * x);
        ln_of_mixture(self.probability, one, two)
    }

    fn mean(&self) -> f64 {
        Hyper::mean(self)
    }

    fn parameters(&self) -> u32 {
        3
    }

    fn text(&self) -> Option<String> {
        Some(format!("h2:{}:{}", Hyper::mean(self), self.scv().sqrt()))
    }
}

/// ln(p·e^a + (1-p)·e^b), where the powers themselves may be too small for numbers.
pub(super) fn ln_of_mixture(probability: f64, a: f64, b: f64) -> f64 {
    let top = a.max(b);
    top + (probability * (a - top).exp() + (1.0 - probability) * (b - top).exp()).ln()
}
