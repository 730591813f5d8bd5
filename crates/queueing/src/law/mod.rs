//! The law of a time: its tail probability P(T > t), and its percentiles.
//!
//! Laws represent P(T > t) instead of its complement, so percentiles far in the tail do not lose
//! digits. Cost: `above` takes O(1) time (at most O(24²) for the law of a deterministic server). A
//! quantile takes one logarithm if the law is a single exponential, otherwise about a hundred
//! evaluations of `above`.

mod deterministic;

use crate::check::{self, ModelError};
use crate::solve;

pub(crate) use deterministic::DeterministicWait;

/// The law of a nonnegative time, in the unit of the model's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Law(Shape);

/// An exponential part of a mixture: `weight`·e^(-`rate`·t).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) weight: f64,
    pub(crate) rate: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// P(T > t) is the sum of the parts.
    Exponentials(Vec<Part>),
    /// An exponential service, preceded by an exponential wait with probability `waits`.
    WaitAndServe { waits: f64, wait_rate: f64, service_rate: f64 },
    /// The wait for a deterministic server.
    Deterministic(DeterministicWait),
    /// An exponential time, to which `hiccup` is added with this probability.
    Hiccup { rate: f64, probability: f64, hiccup: f64 },
    /// A time plus a constant.
    Later(Box<Law>, f64),
    /// The longest of several independent times.
    Longest(Box<Law>, u32),
}

impl Law {
    pub(crate) fn exponential(weight: f64, rate: f64) -> Self {
        Self::exponentials(vec![Part { weight, rate }])
    }

    /// Creates a mixture. The sum of the weights must be at most 1, and rates must be positive. If
    /// there are no parts, the time is 0.
    pub(crate) fn exponentials(parts: Vec<Part>) -> Self {
        Self(Shape::Exponentials(parts))
    }

    pub(crate) fn wait_and_serve(waits: f64, wait_rate: f64, service_rate: f64) -> Self {
        Self(Shape::WaitAndServe { waits, wait_rate, service_rate })
    }

    pub(crate) fn deterministic_wait(wait: DeterministicWait) -> Self {
        Self(Shape::Deterministic(wait))
    }

    pub(crate) fn hiccup(rate: f64, probability: f64, hiccup: f64) -> Self {
        Self(Shape::Hiccup { rate, probability, hiccup })
    }

    pub(crate) fn later(self, by: f64) -> Self {
        Self(Shape::Later(Box::new(self), by))
    }

    /// Returns the law of the longest of `count` independent times with this law, for instance the
    /// times of the leaves that a root waits for. `count` is from 1 to 1,000,000.
    pub fn longest_of(&self, count: u32) -> Result<Self, ModelError> {
        let count = check::count("number of times", count)?;
        Ok(Self(Shape::Longest(Box::new(self.clone()), count)))
    }

    /// Returns P(T > `t`), from 0 to 1; 1 for t < 0, NaN for NaN.
    pub fn above(&self, t: f64) -> f64 {
        if t < 0.0 {
            return 1.0;
        }
        if t == f64::INFINITY {
            return 0.0;
        }
        let probability = match &self.0 {
            Shape::Exponentials(parts) => {
                parts.iter().map(|part| part.weight * (-part.rate * t).exp()).sum()
            }
            &Shape::WaitAndServe { waits, wait_rate, service_rate } => {
                (1.0 - waits) * (-service_rate * t).exp()
                    + waits * two_stages(wait_rate, service_rate, t)
            }
            Shape::Deterministic(wait) => wait.above(t),
            &Shape::Hiccup { rate, probability, hiccup } => {
                let late = if t < hiccup { 1.0 } else { (-rate * (t - hiccup)).exp() };
                (1.0 - probability) * (-rate * t).exp() + probability * late
            }
            Shape::Later(law, by) => law.above(t - by),
            Shape::Longest(law, count) => -(f64::from(*count) * (-law.above(t)).ln_1p()).exp_m1(),
        };
        probability.clamp(0.0, 1.0)
    }

    /// Returns the `q`-quantile: the smallest t with P(T ≤ t) ≥ q. `q` is from 0 to below 1; the
    /// 99th percentile is `quantile(0.99)`.
    pub fn quantile(&self, q: f64) -> Result<f64, ModelError> {
        if !(0.0..1.0).contains(&q) {
            let allowed = "from 0 to below 1 (the 99th percentile is 0.99)";
            return Err(ModelError::OutOfRange { name: "quantile", value: q, allowed });
        }
        Ok(self.at_level(1.0 - q))
    }

    /// Returns the smallest t with P(T > t) ≤ `level`.
    fn at_level(&self, level: f64) -> f64 {
        match &self.0 {
            Shape::Exponentials(parts) if parts.len() == 1 => {
                ((parts[0].weight / level).ln() / parts[0].rate).max(0.0)
            }
            Shape::Later(law, by) => law.at_level(level) + by,
            // The probability that all times are below t is the probability for a single time,
            // raised to the power of the number of times.
            Shape::Longest(law, count) => {
                law.at_level(-((-level).ln_1p() / f64::from(*count)).exp_m1())
            }
            _ => solve::first_at_most(|t| self.above(t), level, self.scale()),
        }
    }

    /// Returns the order of magnitude of the time, above zero, as a starting point for a quantile
    /// search.
    fn scale(&self) -> f64 {
        match &self.0 {
            Shape::Exponentials(parts) => {
                let slowest = parts.iter().map(|part| part.rate).fold(f64::INFINITY, f64::min);
                if slowest.is_finite() { 1.0 / slowest } else { 1.0 }
            }
            Shape::WaitAndServe { wait_rate, service_rate, .. } => {
                1.0 / wait_rate.min(*service_rate)
            }
            Shape::Deterministic(wait) => wait.service(),
            Shape::Hiccup { rate, .. } => 1.0 / rate,
            Shape::Later(law, _) | Shape::Longest(law, _) => law.scale(),
        }
    }
}

/// Returns P(A + B > t) for independent exponentials with these rates, which may be equal:
/// e^(-rt)·(1 + rt·φ((s-r)t)) with r the smaller rate, s the larger, and φ(x) = (1-e^(-x))/x. The
/// usual form (s·e^(-rt) - r·e^(-st))/(s-r) loses its digits if the rates are close.
fn two_stages(one: f64, other: f64, t: f64) -> f64 {
    let (slow, fast) = (one.min(other), one.max(other));
    let decay = (-slow * t).exp();
    // The product rt may be infinite here, and 0 times infinity is undefined.
    if decay == 0.0 {
        return 0.0;
    }
    let x = (fast - slow) * t;
    let phi = if x == 0.0 { 1.0 } else { -(-x).exp_m1() / x };
    decay * (1.0 + slow * t * phi)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_stages_are_erlangs_where_the_rates_meet() {
        let erlang = |t: f64| (-t).exp() * (1.0 + t);
        for t in [0.0, 0.1, 1.0, 40.0] {
            assert!((two_stages(1.0, 1.0, t) - erlang(t)).abs() < 1e-15);
            assert!((two_stages(1.0, 1.0 + 1e-12, t) - erlang(t)).abs() < 1e-11);
            // If the rates are far apart, the closed form is accurate.
            let apart = (3.0 * (-t).exp() - (-3.0 * t).exp()) / 2.0;
            assert!((two_stages(3.0, 1.0, t) - apart).abs() < 1e-15);
        }
    }

    #[test]
    fn quantiles_take_probabilities_only() {
        let law = Law::exponential(1.0, 1.0);
        for q in [-0.1, 1.0, 99.0, f64::NAN] {
            let error = law.quantile(q).expect_err("out of range").to_string();
            assert!(error.contains("0.99"), "{error}");
        }
        assert_eq!(law.quantile(0.0), Ok(0.0));
    }

    #[test]
    fn the_edges_of_time_are_certain() {
        for law in [Law::exponentials(Vec::new()), Law::wait_and_serve(0.5, 1.0, 1.0)] {
            assert_eq!(law.above(-1.0), 1.0);
            assert_eq!(law.above(f64::INFINITY), 0.0);
            assert!(law.quantile(1.0 - f64::EPSILON).expect("in range").is_finite());
        }
        assert!(Law::exponential(1.0, 1.0).longest_of(0).is_err());
    }
}
