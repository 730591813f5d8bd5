//! How long first copies run on a server: a mean of logarithms that is steady while nothing
//! changes, and adapts quickly if the server becomes slow.
//!
//! It compares two means: a short one of the latest copies, and a long one of many copies. If they
//! are far apart, the long mean restarts from the short one. Cost: O(1) per copy; 20 bytes.

/// The approximate number of copies in the mean of the latest copies.
const LATEST: f32 = 24.0;

/// Copies that are older than this many times the memory have almost no weight.
const YOUTH: f32 = 3.0;

/// The minimum and the maximum number of copies that a mean remembers. The minimum applies once
/// there are that many copies.
const MEMORY: (f32, f32) = (64.0, 512.0);

/// A difference between the means that is hardly ever due to chance, in mean deviations or in bins.
/// In mean deviations it is four standard errors of the mean of the latest copies.
const CHANGED: f32 = 0.75;
const NOTICEABLE: f32 = 8.0;

/// The age, in copies, at which a restarted mean is accurate.
const SETTLED: f32 = 72.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    latest: f32,
    mean: f32,
    deviation: f32,
    /// The number of copies recorded, up to `YOUTH` times the maximum memory.
    age: f32,
    /// Whether the mean was restarted and is not accurate yet.
    is_new: bool,
}

impl Pace {
    pub(super) fn new(bin: usize) -> Self {
        let bin = bin as f32;
        Self { latest: bin, mean: bin, deviation: bin, age: 1.0, is_new: false }
    }

    pub(super) fn add(&mut self, bin: usize) {
        let (bin, (least, most)) = (bin as f32, MEMORY);
        self.age = (self.age + 1.0).min(YOUTH * most);
        let memory = self.age.min(least).max(self.age / YOUTH);
        let off = bin - self.mean;
        self.mean += off / memory;
        self.deviation += (off.max(-off) - self.deviation) / memory;
        self.latest += (bin - self.latest) / memory.min(LATEST);
        self.is_new &= self.age < SETTLED;
        let off = self.latest - self.mean;
        if off.max(-off) > NOTICEABLE.max(CHANGED * self.deviation) {
            *self = Self { mean: self.latest, age: LATEST / 2.0, is_new: true, ..*self };
        }
    }

    pub(super) fn is_new(self) -> bool {
        self.is_new
    }

    pub(super) fn mean(self) -> f32 {
        self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These bins are far apart and have a mean of 100.
    fn copies(count: usize) -> impl Iterator<Item = usize> {
        (0..count).map(|i| if i % 2 == 0 { 70 } else { 130 })
    }

    #[test]
    fn the_mean_is_steady_and_follows_a_server_that_becomes_slow() {
        let mut pace = Pace::new(100);
        copies(2_000).for_each(|bin| pace.add(bin));
        assert!((pace.mean() - 100.0).abs() < 0.5 && !pace.is_new(), "{}", pace.mean());
        copies(50).for_each(|bin| pace.add(bin + 40));
        assert!(pace.is_new());
        copies(50).for_each(|bin| pace.add(bin + 40));
        assert!((pace.mean() - 140.0).abs() < 4.0, "soon right: {}", pace.mean());
        copies(2_000).for_each(|bin| pace.add(bin));
        assert!((pace.mean() - 100.0).abs() < 0.5 && !pace.is_new(), "and back: {}", pace.mean());
    }
}
