//! A histogram of ln(J + offset), in narrow bins.
//!
//! Measured jitter has an artificial left tail on a logarithmic scale, because each query's minimum
//! is subtracted. The offset removes this tail: it makes the quartiles of the logarithms symmetric.
//! For a shifted log-normal distribution, this recovers the shift.
//!
//! Cost: O(n), with at most 2,100 bins for any number of executions.

use std::ops::Range;

use super::executions::View;

/// The width of a bin: 1/32 of an octave.
pub(super) const WIDTH: f64 = std::f64::consts::LN_2 / 32.0;

/// The count, mean and variance of weighted values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moments {
    pub(super) count: f64,
    pub(super) sum: f64,
    pub(super) squares: f64,
}

impl Moments {
    /// Creates moments from values and their counts.
    pub(super) fn of(values: impl Iterator<Item = (f64, f64)>) -> Moments {
        values.fold(Moments::default(), |sums, (value, times)| sums.with(value, times))
    }

    /// Adds moments, each multiplied by its weight.
    pub(super) fn sum<'a>(weighted: impl Iterator<Item = (f64, &'a Moments)>) -> Moments {
        weighted.fold(Moments::default(), |sums, (weight, of)| Moments {
            count: sums.count + weight * of.count,
            sum: sums.sum + weight * of.sum,
            squares: sums.squares + weight * of.squares,
        })
    }

    /// Adds a value with the weight `times`.
    pub(super) fn with(self, value: f64, times: f64) -> Moments {
        Moments {
            count: self.count + times,
            sum: self.sum + times * value,
            squares: self.squares + times * value * value,
        }
    }

    pub(super) fn mean(&self) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { 0.0 }
    }

    pub(super) fn variance(&self) -> f64 {
        let count = if self.count > 0.0 { self.count } else { 1.0 };
        (self.squares / count - self.mean().powi(2)).max(0.0)
    }
}

/// The jitter of all executions, except those whose time is P, on a logarithmic scale.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LogHistogram {
    /// The offset in nanoseconds, 1 or more.
    pub(super) offset: f64,
    /// The greatest common divisor of all service times: the clock's resolution, in nanoseconds.
    pub(super) quantum: f64,
    /// The jitter in each bin, in nanoseconds.
    pub(super) bins: Vec<Moments>,
    /// The number of executions in the bins.
    pub(super) count: f64,
}

impl LogHistogram {
    pub(super) fn of(view: View<'_>) -> LogHistogram {
        let services = view.iter().map(|execution| execution.service_ns);
        let quantum = services.fold(0, common_divisor).max(1);
        let samples = view.iter().filter(|execution| !execution.is_least);
        let mut jitter: Vec<u64> = samples.map(|execution| execution.jitter_ns()).collect();
        let offset = offset(&mut jitter).max(quantum as f64);
        let count = jitter.len() as f64;
        let mut made =
            LogHistogram { offset, quantum: quantum as f64, bins: vec![Moments::default()], count };
        for ns in jitter {
            let at = made.index(ns);
            made.bins.resize(made.bins.len().max(at + 1), Moments::default());
            made.bins[at] = made.bins[at].with(ns as f64, 1.0);
        }
        made
    }

    /// Returns the bin of a jitter.
    pub(super) fn index(&self, jitter_ns: u64) -> usize {
        ((jitter_ns as f64 / self.offset).ln_1p() / WIDTH) as usize
    }

    /// Returns a copy without the executions below `bin`.
    pub(super) fn beyond(&self, bin: usize) -> LogHistogram {
        let mut bins = self.bins.clone();
        bins[..bin.min(self.bins.len())].fill(Moments::default());
        let count = self.count_in(bin.min(self.bins.len())..self.bins.len());
        LogHistogram { bins, count, ..*self }
    }

    /// Returns the number of executions in these bins.
    pub(super) fn count_in(&self, bins: Range<usize>) -> f64 {
        self.bins[bins].iter().map(|bin| bin.count).sum()
    }

    /// Returns the total jitter of the executions in `bin` and all later bins, in nanoseconds.
    pub(super) fn time_from(&self, bin: usize) -> f64 {
        self.bins[bin..].iter().map(|bin| bin.sum).sum()
    }

    /// Returns the moments of the logarithm of jitter over the executions in these bins.
    pub(super) fn logarithms(bins: &[Moments], range: Range<usize>) -> Moments {
        Moments::of(range.map(|at| (LogHistogram::middle(at), bins[at].count)))
    }

    /// Returns the middle of a bin, as the logarithm of (J + offset)/offset.
    pub(super) fn middle(at: usize) -> f64 {
        (at as f64 + 0.5) * WIDTH
    }

    /// Returns the jitter at the lower edge of a bin, in nanoseconds.
    pub(super) fn edge_ns(&self, at: usize) -> f64 {
        (at as f64 * WIDTH).exp_m1() * self.offset
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    // A divisor of 1 is final, because it cannot become smaller.
    if a == 1 {
        return 1;
    }
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the offset that makes the quartiles symmetric. It ranges from a hundredth of the median
/// to ten times the median, and is at least 1. Reorders `jitter`.
fn offset(jitter: &mut [u64]) -> f64 {
    if jitter.is_empty() {
        return 1.0;
    }
    let mut quantile = |share: f64| {
        let at = ((share * jitter.len() as f64) as usize).min(jitter.len() - 1);
        *jitter.select_nth_unstable(at).1 as f64
    };
    let [low, median, high, most] = [0.25, 0.5, 0.75, 0.9].map(&mut quantile);
    if median == 0.0 {
        // This happens if most times are equal to the minimum, or if the clock is too coarse.
        let body = if high > 0.0 { high } else { most };
        return body.max(1.0);
    }
    let skew = low + high - 2.0 * median;
    let symmetric = if skew > 0.0 { (median * median - low * high) / skew } else { f64::MAX };
    symmetric.clamp(0.01 * median, 10.0 * median).max(1.0)
}
