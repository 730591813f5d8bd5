//! The interval of a ratio that was measured in several rounds.
//!
//! Both sides of a comparison are measured in every round, so whatever disturbs the machine for
//! longer than a round disturbs both. The value is the median of the rounds' ratios, because a short
//! disturbance can change a single round tenfold. The interval comes from order statistics, without
//! assumptions about the distribution.

use serde::Serialize;

/// The probability beyond either end of an interval.
const TAIL: f64 = 0.025;

/// A median of ratios and its 95 % interval. With fewer than 6 rounds the interval is their range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median.
    pub value: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// Returns the ratio of two sides, given the rounds' ratios. All are NaN without rounds.
///
/// The number of ratios below the true median is binomial with probability 1/2. The interval drops
/// as many ratios at each end as the tail probability allows.
pub fn ratio(rounds: impl IntoIterator<Item = f64>) -> Ratio {
    let mut of: Vec<f64> = rounds.into_iter().collect();
    of.sort_by(f64::total_cmp);
    let Some(last) = of.len().checked_sub(1) else {
        return Ratio { value: f64::NAN, low: f64::NAN, high: f64::NAN };
    };
    let count = of.len();
    let mut probability = 0.5_f64.powi(count as i32);
    let (mut tail, mut cut) = (probability, 0);
    while cut + 1 < count {
        probability *= (count - cut) as f64 / (cut + 1) as f64;
        tail += probability;
        if tail > TAIL {
            break;
        }
        cut += 1;
    }
    Ratio { value: (of[last / 2] * of[count / 2]).sqrt(), low: of[cut], high: of[last - cut] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_order_statistics() {
        // From tables: the 7th and the 18th of 24, the 10th and the 21st of 30, the 1st and the 6th
        // of 6.
        for (count, low, high) in [(24, 7, 18), (30, 10, 21), (6, 1, 6), (4, 1, 4), (1, 1, 1)] {
            let found = ratio((1..=count).rev().map(f64::from));
            assert_eq!((found.low, found.high), (f64::from(low), f64::from(high)), "{count}");
        }
        // A single disturbed round does not change the median.
        let found = ratio([0.8, 0.5, 0.8, 50.0]);
        assert!((found.value - 0.8).abs() < 1e-12, "{found:?}");
        assert!(ratio([]).value.is_nan());
    }
}
