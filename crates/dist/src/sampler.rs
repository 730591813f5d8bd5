//! Draws from one term of a distribution.

use std::sync::Arc;

use rand_core::Rng;
use rand_distr::{
    Bernoulli, Distribution as _, Exp, Gamma, LogNormal, Pareto, StandardUniform, Uniform, Weibull,
};

/// The sampler of a term, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) enum Sampler {
    Constant(f64),
    Exp(Exp<f64>),
    LogNormal(LogNormal<f64>),
    Gamma(Gamma<f64>),
    Hyper { is_fast: Bernoulli, fast: Exp<f64>, slow: Exp<f64> },
    Pareto(Pareto<f64>),
    BoundedPareto(BoundedPareto),
    Weibull(Weibull<f64>),
    Bimodal { is_high: Bernoulli, high: f64 },
    Hiccup { occurs: Bernoulli, length: Exp<f64> },
    Uniform(Uniform<f64>),
    Empirical { samples: Arc<[f64]>, index: Uniform<usize> },
}

/// Sets each time to a draw, or adds a draw to it.
fn each<const ADD: bool>(out: &mut [f64], mut draw: impl FnMut() -> f64) {
    for time in out {
        *time = if ADD { *time + draw() } else { draw() };
    }
}

impl Sampler {
    /// Sets each time to an independent draw, or adds a draw to it. Common samplers are matched
    /// once instead of once per draw.
    pub(crate) fn fill<const ADD: bool>(&self, rng: &mut (impl Rng + ?Sized), out: &mut [f64]) {
        match self {
            Self::Constant(value) => each::<ADD>(out, || *value),
            Self::Exp(exp) => each::<ADD>(out, || exp.sample(rng)),
            Self::Bimodal { is_high, high } => {
                each::<ADD>(out, || if is_high.sample(rng) { *high } else { 0.0 });
            }
            Self::Empirical { samples, index } => {
                each::<ADD>(out, || samples[index.sample(rng)]);
            }
            other => each::<ADD>(out, || other.sample(rng)),
        }
    }

    pub(crate) fn sample(&self, rng: &mut (impl Rng + ?Sized)) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Exp(exp) => exp.sample(rng),
            Self::LogNormal(lognormal) => lognormal.sample(rng),
            Self::Gamma(gamma) => gamma.sample(rng),
            Self::Hyper { is_fast, fast, slow } => {
                if is_fast.sample(rng) {
                    fast.sample(rng)
                } else {
                    slow.sample(rng)
                }
            }
            Self::Pareto(pareto) => pareto.sample(rng),
            Self::BoundedPareto(pareto) => pareto.sample(rng),
            Self::Weibull(weibull) => weibull.sample(rng),
            Self::Bimodal { is_high, high } => {
                if is_high.sample(rng) {
                    *high
                } else {
                    0.0
                }
            }
            Self::Hiccup { occurs, length } => {
                if occurs.sample(rng) {
                    length.sample(rng)
                } else {
                    0.0
                }
            }
            Self::Uniform(uniform) => uniform.sample(rng),
            Self::Empirical { samples, index } => samples[index.sample(rng)],
        }
    }
}

/// The Pareto distribution truncated at `max`: the density falls as x^(-alpha-1) from `min` to
/// `max` and is zero elsewhere. The library does not provide it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundedPareto {
    alpha: f64,
    min: f64,
    max: f64,
    /// ln(max/min).
    log_ratio: f64,
    /// The probability that a draw from the untruncated distribution is below `max`.
    mass: f64,
}

impl BoundedPareto {
    /// Requires `alpha` > 0 and 0 < `min` < `max`.
    pub(crate) fn new(alpha: f64, min: f64, max: f64) -> Self {
        // If the bounds are close, their quotient rounds to 1, but their difference stays precise.
        let log_ratio = ((max - min) / min).ln_1p();
        // expm1 stays precise if alpha is small and the mass is close to zero.
        Self { alpha, min, max, log_ratio, mass: -(-alpha * log_ratio).exp_m1() }
    }

    fn sample(&self, rng: &mut (impl Rng + ?Sized)) -> f64 {
        let u: f64 = StandardUniform.sample(rng);
        let x = self.min * (-(-u * self.mass).ln_1p() / self.alpha).exp();
        // Rounding may push the result past a bound.
        x.clamp(self.min, self.max)
    }

    pub(crate) fn moment(&self, k: i32) -> f64 {
        // The integral of x^(k-alpha-1) in units of min, or its limit if the exponent is 0.
        let exponent = f64::from(k) - self.alpha;
        let integral = if exponent == 0.0 {
            self.log_ratio
        } else {
            (exponent * self.log_ratio).exp_m1() / exponent
        };
        self.alpha * self.min.powi(k) * integral / self.mass
    }
}
