//! How long queries run: a histogram with bins of equal ratio that forgets.
//!
//! Sixteen bins per octave tell times apart that differ by more than 6 %; all of `u64` fits. Cost: O(1)
//! per time, O(bins) per question; 4 KB.

use alloc::boxed::Box;

/// Bins per octave: 2 to this power.
const FINENESS: u32 = 4;

/// So many bins are twice as much.
pub(super) const OCTAVE: usize = 1 << FINENESS;

pub(super) const BINS: usize = (64 - FINENESS as usize + 1) << FINENESS;

/// What came so many times as long ago as a histogram remembers weighs next to nothing.
const YOUTH: f32 = 3.0;

pub(super) type PerBin = Box<[f32; BINS]>;

pub(super) fn bin(ns: u64) -> usize {
    if ns < OCTAVE as u64 {
        return ns as usize;
    }
    let shift = 63 - FINENESS - ns.leading_zeros();
    ((shift as usize) << FINENESS) + (ns >> shift) as usize
}

/// The least time in a bin, in ns.
pub(super) fn edge(bin: usize) -> u64 {
    let shift = (bin >> FINENESS).saturating_sub(1);
    ((bin - (shift << FINENESS)) as u64) << shift
}

/// Times, of which each weighs a little more than the one before.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    weights: PerBin,
    total: f32,
    sum: f32,
    /// What a time that comes now weighs. It grows, instead of all others fading.
    unit: f32,
    /// For how many times it remembers, at least and at most.
    memory: (f32, f32),
    /// How many times there were, as far as it matters.
    age: f32,
}

impl Histogram {
    /// An empty one, in which a time weighs e times as much as one that came so many times before: a
    /// third of all that there were, within these bounds. So what it began with is soon forgotten.
    pub(super) fn new(memory: (f32, f32)) -> Self {
        let weights = Box::new([0.0; BINS]);
        Self { weights, total: 0.0, sum: 0.0, unit: 1.0, memory, age: 0.0 }
    }

    pub(super) fn remembered_for(&self, memory: (f32, f32)) -> Self {
        Self { memory, age: 0.0, ..self.clone() }
    }

    pub(super) fn add(&mut self, ns: u64) {
        let bin = bin(ns);
        self.weights[bin] += self.unit;
        self.total += self.unit;
        self.sum += self.unit * bin as f32;
        let (least, most) = self.memory;
        self.age = (self.age + 1.0).min(YOUTH * most);
        self.unit *= 1.0 + 1.0 / (self.age / YOUTH).clamp(least, most);
        if self.unit > 1e6 {
            self.rescale();
        }
    }

    /// Before numbers get too large. The sums are made anew: errors of rounding do not add up.
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

    /// The mean bin: that of the logarithms. Of at least one time.
    pub(super) fn center(&self) -> f32 {
        self.sum / self.total
    }

    /// The least time that at most this share of times reach. Of at least one time.
    pub(super) fn reached_by(&self, share: f32) -> u64 {
        let (most, mut above) = (share * self.total, 0.0);
        let at = self.weights.iter().rposition(|weight| {
            above += weight;
            above > most
        });
        edge(at.map_or(0, |at| at + 1).min(BINS - 1))
    }

    /// By bin: the share of times in it or above. Of at least one time.
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
    fn what_came_before_fades() {
        let mut times = Histogram::new((100.0, 100.0));
        (0..10_000).for_each(|_| times.add(50));
        assert!((times.count() - 100.0).abs() < 2.0, "{}", times.count());
        (0..100).for_each(|_| times.add(5_000));
        let mut survival = Box::new([0.0; BINS]);
        times.survival(&mut survival);
        let late = survival[bin(5_000)];
        assert!((late - 0.63).abs() < 0.01, "1 - 1/e of the weight: {late}");
        assert!((survival[0] - 1.0).abs() < 1e-5);
        // Weights grow by a factor of a million in 1,400 times or so, and are scaled down then.
        (0..5_000).for_each(|_| times.add(5_000));
        assert!((times.center() - bin(5_000) as f32).abs() < 1e-2, "{}", times.center());
    }
}
