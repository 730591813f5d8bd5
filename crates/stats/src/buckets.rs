//! Buckets of durations in nanoseconds. A bucket is 1/32 of an octave wide.
//!
//! Distributions are counted with `hdrhistogram`. These buckets are for the two purposes that it
//! does not serve. The profiler's eBPF program (`stages.bpf.c`) counts into an array with this
//! layout, and its profiles contain the indexes. The load generator adds up sums for each bucket,
//! and `hdrhistogram` provides no index.
//!
//! The layout has five significant bits. It is exact below 64 ns. From 64 ns on, the width of a
//! bucket is at most 3.2 % of its value.

use std::ops::Range;

/// The number of buckets. They cover durations up to 2⁴³ ns (2.4 hours).
pub const BUCKETS: usize = 1_248;

/// The longest duration that the buckets cover, in nanoseconds.
pub const LONGEST_NS: u64 = (1 << 43) - 1;

/// Returns the bucket of a duration. Durations that exceed [`LONGEST_NS`] belong to the last
/// bucket.
#[must_use]
pub fn bucket_of(ns: u64) -> usize {
    let ns = ns.min(LONGEST_NS);
    let exponent = (63 - (ns | 1).leading_zeros() as usize).saturating_sub(5);
    (ns >> exponent) as usize + exponent * 32
}

/// Returns the durations that belong to a bucket, in nanoseconds.
#[must_use]
pub fn durations(bucket: usize) -> Range<u64> {
    let exponent = (bucket / 32).saturating_sub(1);
    let start = ((bucket - exponent * 32) as u64) << exponent;
    start..start + (1 << exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_inside_its_narrow_bucket() {
        for bits in 0..43 {
            for ns in [1 << bits, (1 << bits) + (1 << bits) / 3, (2 << bits) - 1] {
                let within = durations(bucket_of(ns));
                assert!(within.contains(&ns), "{ns}");
                assert!((within.end - within.start) * 32 <= within.start.max(32), "{ns}");
            }
        }
    }

    #[test]
    fn buckets_follow_each_other() {
        let ends = (0..BUCKETS).scan(0, |end, bucket| {
            let within = durations(bucket);
            assert_eq!(within.start, *end);
            *end = within.end;
            Some(*end)
        });
        assert_eq!(ends.last(), Some(LONGEST_NS + 1));
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }
}
