//! How long first copies run on a server: the mean of logarithms, which is steady where nothing changes,
//! and soon right where the server becomes slow.
//!
//! Two means: where the one of the latest copies is far from the other one, that begins anew. Cost: O(1)
//! per copy; 20 bytes.

/// How many copies the latest are, about.
const LATEST: f32 = 24.0;

/// A mean that began anew has forgotten what it began with after as many copies.
const YOUTH: f32 = 3.0;

/// For how many copies a mean remembers, at least, once there are as many, and at most.
const MEMORY: (f32, f32) = (64.0, 512.0);

/// The means differ by so many mean deviations, or so many bins, hardly ever by chance: four standard
/// errors of the mean of the latest copies.
const CHANGED: f32 = 0.75;
const NOTICEABLE: f32 = 8.0;

/// A mean that began anew is right at this age.
const SETTLED: f32 = 72.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    latest: f32,
    mean: f32,
    deviation: f32,
    /// How many copies there were, as far as it matters.
    age: f32,
    /// It began anew, and is not right yet.
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

    /// Bins far from each other, whose mean is 100.
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
