//! J on a logarithmic scale: ln(J + offset), counted in narrow bins.
//!
//! Measured jitter is left of nothing: the least of each query was subtracted. On a purely
//! logarithmic scale its short end would be a long tail. The offset undoes that: it makes the
//! quartiles of the logarithms symmetric, which for a shifted log-normal distribution is its shift.
//!
//! Cost: O(n), and at most 2,100 bins, however many executions there are.

use super::executions::View;

/// The width of a bin: a 32nd of an octave.
pub(super) const WIDTH: f64 = std::f64::consts::LN_2 / 32.0;

/// What is in a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bin {
    pub(super) count: f64,
    /// The sum of J and of its square, in nanoseconds.
    pub(super) sum: f64,
    pub(super) squares: f64,
}

/// Jitter by its logarithm. The executions that P is from are left out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LogHistogram {
    /// In nanoseconds, 1 or more.
    pub(super) offset: f64,
    /// The greatest common divisor of all service times: the clock's resolution, in nanoseconds.
    pub(super) quantum: f64,
    pub(super) bins: Vec<Bin>,
    /// How many executions are in the bins.
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
            LogHistogram { offset, quantum: quantum as f64, bins: vec![Bin::default()], count };
        for ns in jitter {
            let at = made.index(ns);
            if at >= made.bins.len() {
                made.bins.resize(at + 1, Bin::default());
            }
            if let Some(bin) = made.bins.get_mut(at) {
                bin.count += 1.0;
                bin.sum += ns as f64;
                bin.squares += (ns as f64).powi(2);
            }
        }
        made
    }

    /// The bin of a jitter.
    pub(super) fn index(&self, jitter_ns: u64) -> usize {
        ((jitter_ns as f64 / self.offset).ln_1p() / WIDTH) as usize
    }

    /// The same without what is below a bin.
    pub(super) fn beyond(&self, bin: usize) -> LogHistogram {
        let mut bins = self.bins.clone();
        bins[..bin.min(self.bins.len())].fill(Bin::default());
        let count = bins.iter().map(|bin| bin.count).sum();
        LogHistogram { bins, count, ..*self }
    }

    /// The middle of a bin, as the logarithm of (J + offset)/offset.
    pub(super) fn middle(at: usize) -> f64 {
        (at as f64 + 0.5) * WIDTH
    }

    /// The jitter at the lower edge of a bin, in nanoseconds.
    pub(super) fn edge_ns(&self, at: usize) -> f64 {
        (at as f64 * WIDTH).exp_m1() * self.offset
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    // Once it is 1 it stays.
    if a == 1 {
        return 1;
    }
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The offset that makes the quartiles symmetric, within a hundredth of and ten times the median;
/// 1 or more. Reorders.
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
        // Most are equal to the least, or the clock is too coarse to tell.
        let body = if high > 0.0 { high } else { most };
        return body.max(1.0);
    }
    let skew = low + high - 2.0 * median;
    let symmetric = if skew > 0.0 { (median * median - low * high) / skew } else { f64::MAX };
    symmetric.clamp(0.01 * median, 10.0 * median).max(1.0)
}
