//! Averages over intervals, the younger ones heavier.

/// A sum over the intervals so far, of which an older one counts less, and what the present one adds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    sum: f64,
    present: f64,
}

impl Meter {
    pub(super) fn add(&mut self, what: f64) {
        self.present += what;
    }

    /// The present interval ends.
    pub(super) fn roll(&mut self, decay: f64) {
        self.sum = self.sum * decay + self.present;
        self.present = 0.0;
        // Idle workflows cost no arithmetic on numbers that are slow to compute with.
        if self.sum < 1e-12 {
            self.sum = 0.0;
        }
    }

    /// What the present interval adds.
    pub(super) fn present(&self) -> f64 {
        self.present
    }

    /// The weighted sum, of the intervals that have ended.
    pub(super) fn sum(&self) -> f64 {
        self.sum
    }
}

/// How much the intervals so far weigh together: a sum over it is the average interval's.
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

    /// What was metered, per second.
    pub(super) fn rate(&self, meter: &Meter) -> f64 {
        self.rate_of(meter.sum())
    }

    /// What a meter that saw `present` in the present interval, and nothing before, shows at its end, per second.
    pub(super) fn rate_with(&self, present: f64) -> f64 {
        present / (self.sum * self.decay + 1.0) * self.per_second
    }

    /// What so much is per second.
    pub(super) fn rate_of(&self, what: f64) -> f64 {
        if self.sum > 0.0 { what / self.sum * self.per_second } else { 0.0 }
    }
}
