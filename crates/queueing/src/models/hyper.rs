//! The two-phase hyper-exponential distribution (H2), which is determined by two or three moments.

use serde::Serialize;

use crate::check::{self, ModelError};

/// A hyper-exponential time with two phases: exponential with one of two rates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hyper {
    /// The probability of the first phase, from 0 to 1.
    pub probability: f64,
    /// The rates of the first and the second phase, per unit of time; above 0.
    pub rates: [f64; 2],
}

impl Hyper {
    /// Returns the distribution with this mean (above 0) and squared coefficient of variation (1 or
    /// more), which is `h2:MEAN:CV` in `curtail-dist`. Its phases contribute equally to the mean.
    ///
    /// Source: Whitt, "Approximating a point process by a renewal process, I", 1982.
    pub fn balanced(mean: f64, scv: f64) -> Result<Self, ModelError> {
        let name = "squared coefficient of variation of a hyper-exponential time";
        check::positive("mean of a hyper-exponential time", mean)?;
        if check::scv(name, scv)? < 1.0 {
            return Err(ModelError::OutOfRange { name, value: scv, allowed: "1 or more" });
        }
        let root = ((scv - 1.0) / (scv + 1.0)).sqrt();
        // The rates of the phases, times the mean. The slow rate equals 1-root, but this form does
        // not lose digits.
        let (fast, slow) = (1.0 + root, 2.0 / (scv + 1.0) / (1.0 + root));
        Ok(Self { probability: fast / 2.0, rates: [fast / mean, slow / mean] })
    }

    /// Returns the distribution with the first three moments E\[S\], E\[S²\], E\[S³\]. `None`
    /// unless the squared coefficient of variation is above 1, and E\[S\]·E\[S³\] is above
    /// 1.5·E\[S²\]².
    ///
    /// With u_k = E\[S^k\]/k!, the means of the phases are the roots of x² - ax + b, where u₂ =
    /// a·u₁ - b and u₃ = a·u₂ - b·u₁. Source: Whitt 1982 (as above); we derived the equations.
    pub fn from_moments(moments: [f64; 3]) -> Option<Self> {
        let (u1, u2, u3) = (moments[0], moments[1] / 2.0, moments[2] / 6.0);
        let sum = (u3 - u1 * u2) / (u2 - u1 * u1);
        let product = sum * u1 - u2;
        let large = f64::midpoint(sum, (sum * sum - 4.0 * product).sqrt());
        let small = product / large;
        // Outside their domain, the equations yield NaN, phases of negative length, or equal
        // phases.
        let probability = (large - u1) / (large - small);
        let made = Self { probability, rates: [1.0 / small, 1.0 / large] };
        (u1 > 0.0 && u2 > u1 * u1 && made.check().is_ok()).then_some(made)
    }

    /// Returns the distribution with this mean (above 0), squared coefficient of variation (1 or
    /// more) and skewness. Without a skewness, or if no phases have this skewness, returns the
    /// balanced distribution.
    pub fn fitted(mean: f64, scv: f64, skewness: Option<f64>) -> Result<Self, ModelError> {
        let third = skewness.map(|skewness| skewness * scv * scv.sqrt() + 3.0 * scv + 1.0);
        // Times are in units of the mean, so third powers cannot overflow.
        let unit = third.and_then(|third| Self::from_moments([1.0, 1.0 + scv, third]));
        unit.map_or_else(|| Self::balanced(mean, scv), |unit| Ok(unit.longer(mean)))
    }

    /// Multiplies the time by a factor.
    pub(super) fn longer(self, factor: f64) -> Self {
        Self { rates: self.rates.map(|rate| rate / factor), ..self }
    }

    /// Returns the mean, in units of time.
    pub fn mean(&self) -> f64 {
        self.mixture(|rate| 1.0 / rate)
    }

    /// Returns the squared coefficient of variation, 1 or more.
    pub fn scv(&self) -> f64 {
        let mean = self.mean();
        self.mixture(|rate| 2.0 / (rate * mean) / (rate * mean)) - 1.0
    }

    /// Returns the mean of a function of the phase rates, weighted by the probabilities of the
    /// phases.
    pub(crate) fn mixture(&self, of_phase: impl Fn(f64) -> f64) -> f64 {
        let [one, two] = self.rates.map(of_phase);
        self.probability * one + (1.0 - self.probability) * two
    }

    pub(super) fn check(&self) -> Result<(), ModelError> {
        check::probability("probability of the first phase", self.probability)?;
        check::positive("rate of the first phase", self.rates[0])?;
        check::positive("rate of the second phase", self.rates[1])?;
        Ok(())
    }
}
