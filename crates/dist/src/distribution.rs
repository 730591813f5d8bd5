//! A distribution that can be drawn from.

use rand_core::Rng;

use crate::sampler::Sampler;

/// The longest sample, in nanoseconds (2^63, about 292 years): longer draws are cut to it, so that
/// a sample always fits a 64-bit clock.
pub const MAX_SAMPLE_NS: f64 = 9_223_372_036_854_775_808.0;

/// The shortest time above zero that a parameter may be, in nanoseconds (a femtosecond): it keeps
/// squares and ratios of times within what a number can hold.
pub const MIN_PARAMETER_NS: f64 = 1e-6;

/// A distribution of times in nanoseconds, made by [`Spec::resolve`](crate::Spec::resolve).
///
/// Cloning is cheap: samples of a file are shared.
#[derive(Clone, Debug)]
pub struct Distribution {
    pub(crate) samplers: Box<[Sampler]>,
    pub(crate) mean: f64,
    pub(crate) variance: f64,
}

impl Distribution {
    /// Draws a time in nanoseconds: finite, 0 to [`MAX_SAMPLE_NS`]. For a sum, the sum of one
    /// independent draw of each term, in the order in which they are written.
    pub fn sample(&self, rng: &mut (impl Rng + ?Sized)) -> f64 {
        let sum: f64 = self.samplers.iter().map(|sampler| sampler.sample(rng)).sum();
        sum.clamp(0.0, MAX_SAMPLE_NS)
    }

    /// The mean in nanoseconds; infinite where the distribution has none, as `pareto:1:5ms`.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The variance in square nanoseconds; infinite where the distribution has none, as
    /// `pareto:2:5ms`.
    #[must_use]
    pub fn variance(&self) -> f64 {
        self.variance
    }

    /// The squared coefficient of variation, variance/mean²: 0 for a constant, 1 for the
    /// exponential, infinite where the variance is. The constant 0 has 0.
    #[must_use]
    pub fn scv(&self) -> f64 {
        if self.variance.is_infinite() || self.variance == 0.0 {
            self.variance
        } else {
            self.variance / self.mean / self.mean
        }
    }
}
