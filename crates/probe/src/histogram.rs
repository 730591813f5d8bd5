//! Histograms of durations, with the buckets of the eBPF program (`bpf/stages.bpf.c`).

use curtail_stats::buckets::{BUCKETS, bucket_of, durations};
use serde::{Deserialize, Serialize};

/// The number of buckets in the eBPF program. They cover durations up to 2³² ns (4.29 s). The last
/// bucket also counts all longer durations.
pub const KERNEL_BUCKETS: usize = 896;

/// A histogram of durations in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u32, u64)>", into = "Vec<(u32, u64)>")]
pub struct Histogram {
    /// The count of each bucket. The vector is empty until a duration is added.
    counts: Vec<u64>,
}

impl Histogram {
    /// Adds a duration.
    pub fn record(&mut self, ns: u64) {
        self.add(bucket_of(ns), 1);
    }

    /// Adds `count` durations to a bucket.
    ///
    /// # Panics
    ///
    /// If the bucket does not exist.
    pub fn add(&mut self, bucket: usize, count: u64) {
        self.counts.resize(BUCKETS, 0);
        self.counts[bucket] += count;
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if !other.counts.is_empty() {
            self.counts.resize(BUCKETS, 0);
            self.counts.iter_mut().zip(&other.counts).for_each(|(to, from)| *to += from);
        }
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the non-empty buckets and their counts.
    pub fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts.iter().copied().enumerate().filter(|&(_, count)| count > 0)
    }

    /// Returns a quantile in nanoseconds, interpolated linearly within its bucket. `q` ranges from
    /// 0 to 1. `None` if the histogram is empty.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = q.clamp(0.0, 1.0) * self.count() as f64;
        let mut below = 0.0;
        let mut last = None;
        for (bucket, count) in self.filled() {
            let within = durations(bucket);
            let inside = ((rank - below) / count as f64).clamp(0.0, 1.0);
            last = Some(within.start as f64 + inside * (within.end - within.start) as f64);
            below += count as f64;
            if below >= rank {
                break;
            }
        }
        last
    }
}

impl From<Histogram> for Vec<(u32, u64)> {
    fn from(of: Histogram) -> Self {
        of.filled().map(|(bucket, count)| (bucket as u32, count)).collect()
    }
}

impl TryFrom<Vec<(u32, u64)>> for Histogram {
    type Error = String;

    fn try_from(filled: Vec<(u32, u64)>) -> Result<Self, String> {
        let mut histogram = Histogram::default();
        for (bucket, count) in filled {
            // A bucket must not occur more than once. Counts are bounded so that their sums cannot
            // overflow.
            let again = histogram.counts.get(bucket as usize).is_some_and(|&count| count > 0);
            if bucket as usize >= BUCKETS || count >> 48 > 0 || again {
                return Err(format!("no histogram has {count} in bucket {bucket}"));
            }
            histogram.add(bucket as usize, count);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bucket_of_the_kernel_ends_at_32_bits() {
        assert_eq!(bucket_of(u64::from(u32::MAX)), KERNEL_BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_inside_buckets() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (0..1_000).for_each(|i| histogram.record(i * 1_000));
        for q in [0.1, 0.5, 0.99] {
            let quantile = histogram.quantile(q).expect("durations");
            assert!((quantile / (q * 1e6) - 1.0).abs() < 0.03, "{q}: {quantile}");
        }
        assert!(histogram.quantile(1.0) > histogram.quantile(0.999));
    }

    #[test]
    fn histograms_survive_serialization_and_invalid_buckets_are_refused() {
        let mut histogram = Histogram::default();
        [3, 3, 70_000].iter().for_each(|&ns| histogram.record(ns));
        let text = serde_json::to_string(&histogram).expect("json");
        assert_eq!(serde_json::from_str::<Histogram>(&text).expect("ours"), histogram);
        for other in ["[[1248,1]]", "[[5,1],[5,1]]", "[[5,281474976710656]]"] {
            assert!(serde_json::from_str::<Histogram>(other).is_err(), "{other}");
        }
    }
}
