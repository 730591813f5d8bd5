//! Sums and averages over intervals, with more weight on recent ones.

/// A sum over past intervals, and the amount in the current interval. In the sum, the weight of
/// older intervals decays.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    sum: f64,
    present: f64,
}

impl Meter {
    pub(super) fn add(&mut self, amount: f64) {
        self.present += amount;
    }

    /// Ends the current interval.
    pub(super) fn roll(&mut self, decay: f64) {
        self.sum = self.sum * decay + self.present;
        self.present = 0.0;
        // The sum of an idle workflow would become a denormal number, and arithmetic with denormal
        // numbers is slow.
        if self.sum < 1e-12 {
            self.sum = 0.0;
        }
    }

    /// Returns the amount of the current interval.
    pub(super) fn present(&self) -> f64 {
        self.present
    }

    /// Returns the weighted sum over the intervals that have ended.
    pub(super) fn sum(&self) -> f64 {
        self.sum
    }
}

/// The total weight of all intervals up to now. A sum divided by it is the average per interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    pub(super) decay: f64,
    sum: f64,
    per_second: f64,
}

impl Weight {
    pub(super) fn new(decay: f64, interval_ns: u64) -> Self {
        Self { decay: decay.clamp(0.0, 0.999), sum: 0.0, per_second: 1e9 / interval_ns as f64 }
    }

    pub(super) fn roll(&mut self) {
        self.sum = self.sum * self.decay + 1.0;
    }

    /// Returns the metered amount per second.
    pub(super) fn rate(&self, meter: &Meter) -> f64 {
        self.rate_of(meter.sum())
    }

    /// Returns the rate that a meter would show at the end of the current interval if the amount of
    /// this interval were `present` and all earlier amounts were 0.
    pub(super) fn rate_with(&self, present: f64) -> f64 {
        present / (self.sum * self.decay + 1.0) * self.per_second
    }

    /// Converts a weighted sum to an amount per second.
    pub(super) fn rate_of(&self, sum: f64) -> f64 {
        if self.sum > 0.0 { sum / self.sum * self.per_second } else { 0.0 }
    }
}
