//! A setting of the hedge: the delay and the probability, which training adjusts within a budget.
//!
//! Choice: both are rounded to three digits, toward fewer copies, so that the name of a trained
//! policy is short and exact.

use curtail_kernel::Policy;

use super::Trained;

/// A budget counts as kept if the excess over it is at most this share of the budget, because such
/// an excess can be due to chance.
const TOLERANCE: f64 = 0.05;

#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) delay_ns: u64,
    pub(super) probability: f64,
    pub(super) budget: f64,
}

impl Setting {
    pub(super) const NONE: Self = Self { delay_ns: 0, probability: 0.0, budget: 0.0 };

    pub(super) fn with(self, budget: f64) -> Self {
        let times = budget / self.budget;
        let probability = if self.budget > 0.0 { self.probability * times } else { budget };
        Self { probability: probability.min(1.0), budget, ..self }
    }

    pub(super) fn policy(self) -> Policy {
        if self.probability > 0.0 {
            Policy::probabilistic(self.delay_ns, self.probability)
        } else {
            Policy::RANDOM
        }
    }

    pub(super) fn keeps(self, hedged: f64) -> bool {
        hedged <= self.budget * (1.0 + TOLERANCE)
    }

    pub(super) fn rounded(self) -> Self {
        let digit = |value: f64| 10_f64.powf(value.log10().floor() - 2.0);
        let delay_ns = self.delay_ns as f64;
        let delay_ns = if self.delay_ns > 0 {
            ((delay_ns / digit(delay_ns)).ceil() * digit(delay_ns)).round() as u64
        } else {
            0
        };
        // Divide by a power of ten, because the result is exact to the last digit.
        let parts = (1.0 / digit(self.probability)).round();
        let probability = match self.probability {
            q if q < 1.0 => (q * parts).floor() / parts,
            _ => 1.0,
        };
        Self { delay_ns, probability, ..self }
    }

    pub(super) fn trained(self) -> Trained {
        Trained { policy: self.policy(), budget: self.budget }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_rounded_toward_fewer_copies() {
        let setting = |delay_ns, probability| Setting { delay_ns, probability, budget: 0.1 };
        for (given, delay_ns, probability) in [
            (setting(5_123_456, 0.123_49), 5_130_000, 0.123),
            (setting(0, 1.0), 0, 1.0),
            (setting(99_999, 0.000_099_99), 100_000, 0.000_099_9),
            (setting(7, 0.5), 7, 0.5),
        ] {
            let rounded = given.rounded();
            assert_eq!((rounded.delay_ns, rounded.probability), (delay_ns, probability));
        }
    }
}
