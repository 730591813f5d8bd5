//! The distribution function and the density of a fitted distribution.

use statrs::function::gamma::ln_gamma;

use crate::models::Hyper;
use curtail_stats::special::{gamma_cdf, normal_cdf};

/// A fitted distribution, described by its parameters, in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names document the parameters")]
pub enum Law {
    /// Exponential.
    Exponential { mean: f64 },
    /// Log-normal: ln X is normal, and e^location is the median.
    LogNormal { location: f64, deviation: f64 },
    /// Gamma: the shape is 1/CV², and the scale is the mean divided by the shape.
    Gamma { shape: f64, scale: f64 },
    /// Weibull: P(X > x) = e^(-(x/scale)^shape). With a shape below 1, the tail is heavier than
    /// exponential.
    Weibull { shape: f64, scale: f64 },
    /// Pareto: P(X > x) = (min/x)^alpha for x ≥ min. The mean is infinite if alpha is 1 or less.
    Pareto { alpha: f64, min: f64 },
    /// Hyper-exponential with two phases.
    Hyper(Hyper),
    /// A mixture of two Erlangs, each a sum of `order` exponential stages of equal rate. The first
    /// rate is the higher one.
    Erlangs { order: u32, stage: Hyper },
}

impl Law {
    /// Returns P(X ≤ `x`), from 0 to 1; 0 for x ≤ 0.
    pub fn cdf(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 0.0;
        }
        let cdf = match *self {
            Self::Exponential { mean } => -(-x / mean).exp_m1(),
            Self::LogNormal { location, deviation } => normal_cdf((x.ln() - location) / deviation),
            Self::Gamma { shape, scale } => gamma_cdf(shape, x / scale),
            Self::Weibull { shape, scale } => -(-(x / scale).powf(shape)).exp_m1(),
            Self::Pareto { alpha, min } => -(alpha * (min / x).ln()).exp_m1(),
            Self::Hyper(stage) => stage.mixture(|rate| -(-rate * x).exp_m1()),
            Self::Erlangs { order, stage } => {
                stage.mixture(|rate| gamma_cdf(f64::from(order), rate * x))
            }
        };
        cdf.clamp(0.0, 1.0)
    }

    /// Returns the logarithm of the density at `x`, per unit of the samples; -∞ if the density is
    /// zero.
    pub fn ln_density(&self, x: f64) -> f64 {
        const LN_ROOT_TAU: f64 = 0.918_938_533_204_672_8;
        if x <= 0.0 {
            return f64::NEG_INFINITY;
        }
        match *self {
            Self::Exponential { mean } => -x / mean - mean.ln(),
            Self::LogNormal { location, deviation } => {
                let z = (x.ln() - location) / deviation;
                -0.5 * z * z - LN_ROOT_TAU - deviation.ln() - x.ln()
            }
            Self::Gamma { shape, scale } => ln_gamma_density(shape, x / scale) - scale.ln(),
            Self::Weibull { shape, scale } => {
                let ln = (x / scale).ln();
                shape.ln() + (shape - 1.0) * ln - (shape * ln).exp() - scale.ln()
            }
            Self::Pareto { min, .. } if x < min => f64::NEG_INFINITY,
            Self::Pareto { alpha, min } => alpha.ln() - x.ln() - alpha * (x / min).ln(),
            Self::Hyper(stage) => ln_mixture(stage, |rate| rate.ln() - rate * x),
            Self::Erlangs { order, stage } => {
                let order = f64::from(order);
                ln_mixture(stage, |rate| ln_gamma_density(order, rate * x) + rate.ln())
            }
        }
    }

    /// Returns the parameters and their names.
    pub fn parameters(&self) -> Vec<(&'static str, f64)> {
        let mixture = |Hyper { probability, rates: [one, two] }| {
            [("probability", probability), ("rate_1", one), ("rate_2", two)]
        };
        match *self {
            Self::Exponential { mean } => vec![("mean", mean)],
            Self::LogNormal { location, deviation } => {
                vec![("location", location), ("deviation", deviation)]
            }
            Self::Gamma { shape, scale } | Self::Weibull { shape, scale } => {
                vec![("shape", shape), ("scale", scale)]
            }
            Self::Pareto { alpha, min } => vec![("alpha", alpha), ("min", min)],
            Self::Hyper(stage) => mixture(stage).to_vec(),
            Self::Erlangs { order, stage } => {
                [&[("order", f64::from(order))], &mixture(stage)[..]].concat()
            }
        }
    }
}

/// Returns the logarithm of the density of the gamma distribution with scale 1.
fn ln_gamma_density(shape: f64, x: f64) -> f64 {
    (shape - 1.0) * x.ln() - x - ln_gamma(shape)
}

/// Returns ln(p·e^a + (1-p)·e^b), even if the powers themselves underflow.
fn ln_mixture(of: Hyper, ln_density: impl Fn(f64) -> f64) -> f64 {
    let [a, b] = of.rates.map(ln_density);
    let top = a.max(b);
    top + (of.probability * (a - top).exp() + (1.0 - of.probability) * (b - top).exp()).ln()
}
