//! 95 % confidence intervals.
//!
//! The interval of a probability is that of Clopper and Pearson ("The use of confidence or fiducial
//! limits", 1934), generalized to fractional counts. It covers the true value in at least 95 % of
//! cases. The interval of a mean is the union of Student's t intervals on the linear and the
//! logarithmic scale. If the samples are few and skewed, the logarithmic interval has the higher
//! upper bound.
//!
//! Cost: about fifty evaluations of the incomplete beta function. This function is computed with
//! the continued fraction in [`special`](crate::special). The continued fraction in statrs stops after 140
//! terms, which is too few for counts in the millions.

use crate::special::beta_cdf;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The probability on either side of a 95 % interval.
const TAIL: f64 = 0.025;
/// The number of trials with which a rate is approximated by a probability.
const SHORT_TIMES: f64 = 1e9;
/// The number of bisection steps: enough to compute a bound near 1e-9 to full precision.
const HALVINGS: u32 = 80;

/// A value and its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The point estimate.
    pub value: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl Estimate {
    /// Whether the interval contains `value`.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Multiplies the value and both bounds by `factor`, which must be 0 or more.
    pub fn scaled(self, factor: f64) -> Estimate {
        self.map(|bound| bound * factor)
    }

    fn map(self, of: impl Fn(f64) -> f64) -> Estimate {
        Estimate { value: of(self.value), low: of(self.low), high: of(self.high) }
    }

    /// Extends the interval by `by` in both directions, but not below 0.
    pub fn widened(self, by: f64) -> Estimate {
        Estimate { value: self.value, low: (self.low - by).max(0.0), high: self.high + by }
    }

    /// Returns this value with the union of both intervals.
    #[must_use]
    pub fn hull(self, other: Estimate) -> Estimate {
        Estimate {
            value: self.value,
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }
}

/// Estimates the probability of an event that occurred `count` times in `trials`.
pub fn probability(count: f64, trials: f64) -> Estimate {
    if trials <= 0.0 {
        return Estimate { value: 0.0, low: 0.0, high: 1.0 };
    }
    let count = count.clamp(0.0, trials);
    let others = trials - count;
    let low = if count > 0.0 { beta_quantile(TAIL, count, others + 1.0) } else { 0.0 };
    let high = if others > 0.0 { beta_quantile(1.0 - TAIL, count + 1.0, others) } else { 1.0 };
    Estimate { value: count / trials, low, high }
}

/// Estimates the mean of a Poisson distribution from an observed `count`.
///
/// The rate is approximated by the probability of an event in a very large number of trials.
pub fn poisson(count: f64) -> Estimate {
    let times = SHORT_TIMES.max(1e3 * count);
    let share = probability(count, times);
    Estimate { value: count, low: share.low * times, high: share.high * times }
}

/// Estimates the difference between two estimated values, which is 0 or more.
pub fn difference(first: Estimate, second: Estimate) -> Estimate {
    signed_difference(first, second).map(|bound| bound.max(0.0))
}

/// Estimates the ratio of two independently estimated values, which are 0 or more. On a logarithmic
/// scale a ratio is a difference. Asymmetric intervals stay asymmetric.
pub fn quotient(first: Estimate, second: Estimate) -> Estimate {
    signed_difference(first.map(f64::ln), second.map(f64::ln)).map(f64::exp)
}

/// The distances of the bounds from the estimates add up like standard errors (the method of variance
/// estimates recovery). Source: Zou and Donner, "Construction of confidence limits about effect
/// measures", 2008.
fn signed_difference(first: Estimate, second: Estimate) -> Estimate {
    let value = first.value - second.value;
    let below = (first.value - first.low).hypot(second.high - second.value);
    let above = (first.high - first.value).hypot(second.value - second.low);
    Estimate { value, low: value - below, high: value + above }
}

/// Returns the interval of a mean, given its standard error and the number of samples. The mean
/// must be 0 or more. It does not extend below 0.
pub fn mean(value: f64, standard_error: f64, samples: f64) -> Estimate {
    let t = student_quantile((samples - 1.0).max(1.0));
    let half = t * standard_error;
    let plain = Estimate { value, low: (value - half).max(0.0), high: value + half };
    if value <= 0.0 {
        return plain;
    }
    // The bound keeps the factor finite for any error.
    let factor = (half / value).min(700.0).exp();
    plain.hull(Estimate { value, low: value / factor, high: (value * factor).min(f64::MAX) })
}

/// Returns the 97.5 % quantile of Student's t. `freedom` must be above 0.
pub fn student_quantile(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - TAIL))
}

/// Returns the probability of `count` or more successes in `trials` that each succeed with this
/// probability.
pub fn at_least(count: f64, trials: f64, probability: f64) -> f64 {
    if count <= 0.0 { 1.0 } else { beta_cdf(count, (trials - count).max(0.0) + 1.0, probability) }
}

fn beta_quantile(share: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if beta_cdf(a, b, middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64, tolerance: f64) {
        assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected}");
    }

    #[test]
    fn a_ratio_has_the_uncertainty_of_both_values() {
        let near = |[low, high]: [f64; 2], [below, above]: [f64; 2], expected: [f64; 2]| {
            let first = Estimate { value: 200.0, low, high };
            let found = quotient(first, Estimate { value: 100.0, low: below, high: above });
            let off = (found.low - expected[0]).abs().max((found.high - expected[1]).abs());
            assert!(off < 1e-9 && (found.value - 2.0).abs() < 1e-9, "{found:?}, not {expected:?}");
        };
        // Only one of the two values is uncertain.
        near([100.0, 400.0], [100.0, 100.0], [1.0, 4.0]);
        near([200.0, 200.0], [50.0, 200.0], [1.0, 4.0]);
        // Both values are uncertain by a factor of 2, and the errors add up like the legs of a right
        // triangle.
        let both = 2.0_f64.powf(2.0_f64.sqrt());
        near([100.0, 400.0], [50.0, 200.0], [2.0 / both, 2.0 * both]);
        near([0.0, 200.0], [100.0, 100.0], [0.0, 2.0]);
    }

    #[test]
    fn intervals_and_quantiles_match_tables() {
        // The 95 % intervals of Clopper and Pearson for 5 of 50, 0 of 10, and 10 of 10.
        let some = probability(5.0, 50.0);
        assert_close(some.low, 0.033_28, 1e-5);
        assert_close(some.high, 0.218_14, 1e-5);
        assert_close(probability(0.0, 10.0).high, 0.308_50, 1e-5);
        assert_close(probability(10.0, 10.0).low, 0.691_50, 1e-5);
        assert_eq!(probability(0.0, 0.0).high, 1.0);
        // Garwood, 95 %.
        for (count, low, high) in [(0.0, 0.0, 3.689), (1.0, 0.0253, 5.572), (10.0, 4.795, 18.39)] {
            assert_close(poisson(count).low, low, 1e-3);
            assert_close(poisson(count).high, high, 1e-2);
        }
        for (freedom, t) in [(1.0, 12.706), (2.0, 4.303), (10.0, 2.228), (30.0, 2.042), (1e5, 1.96)]
        {
            assert_close(student_quantile(freedom), t, 1e-3);
        }
        // Binomial tails are exact.
        assert_close(at_least(3.0, 4.0, 0.5), 5.0 / 16.0, 1e-12);
        assert_eq!((at_least(0.0, 4.0, 0.5), at_least(4.0, 4.0, 1.0)), (1.0, 1.0));
    }

    #[test]
    fn a_difference_has_the_uncertainty_of_both_parts() {
        let part =
            |value: f64, half: f64| Estimate { value, low: value - half, high: value + half };
        let left = difference(part(10.0, 3.0), part(6.0, 4.0));
        assert_eq!(left, Estimate { value: 4.0, low: 0.0, high: 9.0 });
        let none = difference(part(1.0, 0.5), part(6.0, 1.2));
        assert_eq!(none, Estimate { value: 0.0, low: 0.0, high: 0.0 });
    }
}
