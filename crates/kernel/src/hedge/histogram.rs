//! A histogram of run times that forgets old samples. The ratio of the two edges of a bin is about
//! the same for all bins.
//!
//! There are 16 bins per octave, so run times that differ by more than 6 % are in different bins.
//! The bins cover the whole range of `u64`. Cost: O(1) per sample, O(bins) per lookup; 4 KB.

use alloc::boxed::Box;
use core::ops::RangeInclusive;

/// The binary logarithm of the number of bins per octave.
const FINENESS: u32 = 4;

/// The number of bins per octave, in which times double.
pub(super) const OCTAVE: usize = 1 << FINENESS;

pub(super) const BINS: usize = (64 - FINENESS as usize + 1) << FINENESS;

/// Samples that are older than this many times the memory have almost no weight.
const YOUTH: f32 = 3.0;

pub(super) type PerBin = Box<[f32; BINS]>;

pub(super) fn bin(ns: u64) -> usize {
    if ns < OCTAVE as u64 {
        return ns as usize;
    }
    let shift = 63 - FINENESS - ns.leading_zeros();
    ((shift as usize) << FINENESS) + (ns >> shift) as usize
}

/// The smallest time in a bin, in ns.
pub(super) fn edge(bin: usize) -> u64 {
    let shift = (bin >> FINENESS).saturating_sub(1);
    ((bin - (shift << FINENESS)) as u64) << shift
}

/// The weighted samples. Each sample weighs slightly more than the previous one.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    weights: PerBin,
    total: f32,
    sum: f32,
    /// The weight of the next sample. It grows, so that older weights do not have to shrink.
    unit: f32,
    /// The minimum and the maximum number of samples to remember.
    memory: RangeInclusive<f32>,
    /// The number of samples added, up to `YOUTH` times the maximum memory.
    age: f32,
}

impl Histogram {
    /// An empty histogram. A sample weighs e times as much as the one that came `m` samples before,
    /// where `m` is a third of all samples up to then, within the bounds of `memory`. So the first
    /// samples are soon forgotten.
    pub(super) fn new(memory: RangeInclusive<f32>) -> Self {
        let weights = Box::new([0.0; BINS]);
        Self { weights, total: 0.0, sum: 0.0, unit: 1.0, memory, age: 0.0 }
    }

    pub(super) fn remembered_for(&self, memory: RangeInclusive<f32>) -> Self {
        Self { memory, age: 0.0, ..self.clone() }
    }

    pub(super) fn add(&mut self, ns: u64) {
        let bin = bin(ns);
        self.weights[bin] += self.unit;
        self.total += self.unit;
        self.sum += self.unit * bin as f32;
        let (least, most) = (*self.memory.start(), *self.memory.end());
        self.age = (self.age + 1.0).min(YOUTH * most);
        self.unit *= 1.0 + 1.0 / (self.age / YOUTH).clamp(least, most);
        if self.unit > 1e6 {
            self.rescale();
        }
    }

    /// Scales the weights down before they get too large, and recomputes the sums so that rounding
    /// errors do not accumulate.
    #[cold]
    fn rescale(&mut self) {
        let by = 1.0 / self.unit;
        self.weights.iter_mut().for_each(|weight| *weight *= by);
        self.unit = 1.0;
        self.total = self.weights.iter().sum();
        self.sum = self.weights.iter().enumerate().map(|(bin, weight)| bin as f32 * weight).sum();
    }

    pub(super) fn count(&self) -> f32 {
        self.total / self.unit
    }

    /// The mean bin, which is the mean of the logarithms. Requires at least one sample.
    pub(super) fn center(&self) -> f32 {
        self.sum / self.total
    }

    /// The shortest time that is reached by at most this share of samples. Requires at least one
    /// sample.
    pub(super) fn reached_by(&self, share: f32) -> u64 {
        let (most, mut above) = (share * self.total, 0.0);
        let at = self.weights.iter().rposition(|weight| {
            above += weight;
            above > most
        });
        edge(at.map_or(0, |at| at + 1).min(BINS - 1))
    }

    /// For each bin, the share of samples that are in that bin or above it. Requires at least one
    /// sample.
    pub(super) fn survival(&self, into: &mut PerBin) {
        let mut above = 0.0;
        for (share, weight) in into.iter_mut().zip(self.weights.iter()).rev() {
            above += weight;
            *share = above / self.total;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn every_time_is_in_its_bin() {
        let mut times: Vec<u64> = (0..2_000).collect();
        times.extend(
            (10..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + (1 << (bit - 1))]),
        );
        times.push(u64::MAX);
        for ns in times {
            let bin = bin(ns);
            assert!(bin < BINS, "{ns}");
            assert!(edge(bin) <= ns && (bin + 1 == BINS || ns < edge(bin + 1)), "{ns}");
        }
    }

    #[test]
    fn old_samples_fade() {
        let mut times = Histogram::new(100.0..=100.0);
        (0..10_000).for_each(|_| times.add(50));
        assert!((times.count() - 100.0).abs() < 2.0, "{}", times.count());
        (0..100).for_each(|_| times.add(5_000));
        let mut survival = Box::new([0.0; BINS]);
        times.survival(&mut survival);
        let late = survival[bin(5_000)];
        assert!((late - 0.63).abs() < 0.01, "1 - 1/e of the weight: {late}");
        assert!((survival[0] - 1.0).abs() < 1e-5);
        // The weights grow by a factor of a million in about 1,400 samples, and are then scaled
        // down.
        (0..5_000).for_each(|_| times.add(5_000));
        assert!((times.center() - bin(5_000) as f32).abs() < 1e-2, "{}", times.center());
    }
}
