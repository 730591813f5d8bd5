//! Detects whether cost hints narrow the distribution of run times. If all queries cost the same,
//! even hints with a small error widen the distribution: ages relative to such hints vary more than
//! plain ages, so T has to be later.
//!
//! Cost: O(1) per run time.

use crate::hedge::histogram::bin;

/// The number of run times over which the hints are judged, which is also the minimum for a
/// judgment.
const MEMORY: f32 = 1_024.0;
const FEW: f32 = 128.0;

/// The mean and the variance of logarithms.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    mean: f32,
    variance: f32,
}

impl Spread {
    fn add(&mut self, ns: u64, share: f32) {
        let from_mean = bin(ns) as f32 - self.mean;
        self.mean += share * from_mean;
        self.variance += share * ((1.0 - share) * from_mean * from_mean - self.variance);
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hints {
    seen: f32,
    plain: Spread,
    relative: Spread,
}

impl Hints {
    /// Records the run time of a query in ns, and its cost hint relative to the mean.
    pub(super) fn ran(&mut self, ns: u64, cost: f64) {
        self.seen = (self.seen + 1.0).min(MEMORY);
        self.plain.add(ns, 1.0 / self.seen);
        self.relative.add((ns as f64 / cost) as u64, 1.0 / self.seen);
    }

    /// Whether hints narrow the distribution of run times, so that they are worth using. True until
    /// there is enough evidence.
    pub(super) fn narrow(&self) -> bool {
        self.seen < FEW || self.relative.variance <= self.plain.variance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_narrow_run_times_if_costs_vary_more_than_errors() {
        let heeded = |costs: [u64; 2], errs: u64| {
            let mut hints = Hints::default();
            for i in 0..2_000 {
                let cost = costs[i % 2];
                let hint = cost * (1_000 + (i as u64 * 37 % 200) * errs / 10) / 1_000;
                hints.ran(1_000 * cost, hint as f64);
            }
            hints.narrow()
        };
        assert!(heeded([100, 300], 10), "a threefold cost and an error of 20 %");
        assert!(heeded([100, 300], 0));
        assert!(!heeded([100, 100], 10), "the same cost");
        assert!(Hints::default().narrow(), "unknown");
    }
}
