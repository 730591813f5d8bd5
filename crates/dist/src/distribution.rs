//! Distributions that are ready to draw from.

use rand_core::Rng;

use crate::sampler::Sampler;

/// The longest sample, in nanoseconds (2^63, about 292 years). Longer draws are clamped to this
/// value, so that a sample always fits a 64-bit clock.
pub const MAX_SAMPLE_NS: f64 = 9_223_372_036_854_775_808.0;

/// The shortest positive time that a parameter may have, in nanoseconds (a femtosecond). It keeps
/// squares and ratios of times within the range of a double.
pub const MIN_PARAMETER_NS: f64 = 1e-6;

/// A distribution of times in nanoseconds, made by [`Spec::resolve`](crate::Spec::resolve).
///
/// Cloning is cheap, because the samples of a file are shared.
#[derive(Clone, Debug)]
pub struct Distribution {
    pub(crate) samplers: Box<[Sampler]>,
    pub(crate) has_units: Option<bool>,
    pub(crate) mean: f64,
    pub(crate) variance: f64,
    pub(crate) third: f64,
}

impl Distribution {
    /// Draws a time in nanoseconds: finite, from 0 to [`MAX_SAMPLE_NS`]. A sum draws each term
    /// independently, in the order of the terms.
    pub fn sample(&self, rng: &mut (impl Rng + ?Sized)) -> f64 {
        let sum: f64 = self.samplers.iter().map(|sampler| sampler.sample(rng)).sum();
        sum.clamp(0.0, MAX_SAMPLE_NS)
    }

    /// Fills `out` with independent draws. The draws have the same distribution as those of
    /// [`sample`](Self::sample), but not the same order: all draws of the first term come first,
    /// followed by all draws of the next term. This is faster than [`sample`](Self::sample) if
    /// there are many draws.
    pub fn fill(&self, rng: &mut (impl Rng + ?Sized), out: &mut [f64]) {
        for (at, sampler) in self.samplers.iter().enumerate() {
            if at == 0 { sampler.fill::<false>(rng, out) } else { sampler.fill::<true>(rng, out) }
        }
        for time in out {
            *time = time.clamp(0.0, MAX_SAMPLE_NS);
        }
    }

    /// Fills `out` with independent draws in whole nanoseconds, rounded to the nearest. `scratch`
    /// must have the same length.
    pub fn fill_ns(&self, rng: &mut (impl Rng + ?Sized), scratch: &mut [f64], out: &mut [u64]) {
        self.fill(rng, scratch);
        round(scratch, out);
    }

    /// Whether its times were written with units, in the specification or in a file; `None` if that
    /// is unknown.
    pub fn has_units(&self) -> Option<bool> {
        self.has_units
    }

    /// The mean in nanoseconds; infinite for distributions without one, such as `pareto:1:5ms`.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The variance in square nanoseconds; infinite for distributions without one, such as
    /// `pareto:2:5ms`.
    pub fn variance(&self) -> f64 {
        self.variance
    }

    /// The squared coefficient of variation, variance/mean²: 0 for a constant, 1 for the
    /// exponential, infinite if the variance is infinite. It is also 0 for the constant 0.
    pub fn scv(&self) -> f64 {
        if self.variance.is_infinite() || self.variance == 0.0 {
            self.variance
        } else {
            self.variance / self.mean / self.mean
        }
    }

    /// The skewness, the third central moment divided by the third power of the standard deviation:
    /// 0 for a symmetric distribution, 2 for the exponential, infinite if the third moment is
    /// infinite, as for `pareto:3:5ms`. For a constant it is 0.
    pub fn skewness(&self) -> f64 {
        if self.third.is_infinite() || self.variance == 0.0 {
            self.third
        } else {
            self.third / self.variance / self.variance.sqrt()
        }
    }
}

/// 2⁵². Every double at or above this value is a whole number.
const WHOLE: f64 = 4_503_599_627_370_496.0;

/// Rounds times from 0 to [`MAX_SAMPLE_NS`] to the nearest whole number, ties to even.
///
/// A cast to an integer saturates, which costs a branch per number. Numbers below 2⁵² can be
/// rounded more cheaply: if 2⁵² is added to such a number, the low bits of the sum are the rounded
/// number.
fn round(times: &[f64], out: &mut [u64]) {
    let mut largest = 0.0;
    for (out, &time) in out.iter_mut().zip(times) {
        *out = (time + WHOLE).to_bits() - WHOLE.to_bits();
        largest = if time > largest { time } else { largest };
    }
    if largest >= WHOLE {
        for (out, &time) in out.iter_mut().zip(times) {
            *out = time.round_ties_even() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_to_the_nearest() {
        let times = [0.0, 0.4, 0.6, 1.5, 2.5, 1e6 + 0.7, WHOLE - 1.0];
        let mut ns = [9; 7];
        round(&times, &mut ns);
        let whole = [0, 0, 1, 2, 2, 1_000_001, WHOLE as u64 - 1];
        assert_eq!(ns, whole);
        // A long time does not affect the rounding of the other times.
        let mut more = [9; 8];
        round(&[&times[..], &[MAX_SAMPLE_NS]].concat(), &mut more);
        assert_eq!(more[..7], whole);
        assert_eq!(more[7], 1 << 63);
    }
}
