//! Histograms, their form in messages between machines, and coarse buckets of latencies.
//!
//! Deserialization rejects impossible values, so that no sum overflows.
//!
//! `hdrhistogram` counts latencies. It provides no index of a bucket, which is needed to keep sums
//! for each bucket (`split`). A block of time (`blocks`) uses the same coarse buckets, because its 64
//! histograms would take twice the memory.

use hdrhistogram::Histogram;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

use crate::plan::TIMEOUT_NS_MAX;

/// Maximum value of any count in a message. Agents send two messages per second, and a run is
/// shorter than a century.
pub(crate) const COUNT_MAX: u64 = 1 << 32;
/// The maximum value of a growing histogram: 35 years in microseconds. It limits the memory that the
/// histogram can use.
pub(crate) const GROWN_MAX: u64 = 1 << 50;

/// Creates an empty latency histogram in nanoseconds. It has three significant digits and a range
/// that ends slightly above the longest timeout. Higher values are recorded as the maximum.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    let most_ns = TIMEOUT_NS_MAX + 1_000_000_000;
    Histogram::new_with_max(most_ns, 3).expect("the bound and the digits are constants in range")
}

/// Creates a histogram with four significant digits and a range that grows with its values.
pub(super) fn growing_histogram() -> Histogram<u64> {
    let mut counts = Histogram::new(4).expect("four digits are in range");
    counts.auto(true);
    counts
}

/// Serializes a histogram as values and their counts.
pub(super) fn serialize<S: Serializer>(counts: &Histogram<u64>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(counts.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value())))
}

/// Deserializes into a [`histogram`].
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
    filled(histogram(), from)
}

/// Deserializes into a [`growing_histogram`].
pub(super) fn growing<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
    filled(growing_histogram(), from)
}

fn filled<'de, D: Deserializer<'de>>(
    mut counts: Histogram<u64>,
    from: D,
) -> Result<Histogram<u64>, D::Error> {
    for (value, count) in Vec::<(u64, u64)>::deserialize(from)? {
        if value > GROWN_MAX || count > COUNT_MAX || counts.record_n(value, count).is_err() {
            return Err(D::Error::custom("a histogram contains impossible counts"));
        }
    }
    Ok(counts)
}

/// Number of buckets per factor of two.
const LINEAR: u32 = 64;
const LINEAR_BITS: u32 = LINEAR.ilog2();
/// Number of buckets. This is more than enough for the longest timeout.
pub(crate) const BUCKETS: usize = (37 - LINEAR_BITS as usize) * LINEAR as usize;

/// Returns the bucket of a latency in nanoseconds. Each factor of two is divided into buckets of
/// equal width.
pub(crate) fn bucket_of(ns: u64) -> usize {
    let high = (ns | 1).ilog2();
    let shift = high.saturating_sub(LINEAR_BITS);
    let within = (ns >> shift) as usize;
    (shift as usize * LINEAR as usize + within).min(BUCKETS - 1)
}

/// Returns the middle of a bucket, in nanoseconds.
pub(crate) fn bucket_middle_ns(index: usize) -> u64 {
    let linear = LINEAR as usize;
    let shift = (index / linear).saturating_sub(1);
    let within = index - shift * linear;
    ((within as u64) << shift) + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_narrow_and_contain_their_middle() {
        let mut before = 0;
        for ns in (0..20_000).chain((20_000..60_000_000_000).step_by(7_654_321)) {
            let at = bucket_of(ns);
            assert!(at >= before, "{ns}");
            assert!(at - before <= 1 || ns >= 20_000, "{ns} skips a bucket");
            assert_eq!(bucket_of(bucket_middle_ns(at)), at, "{ns}");
            assert!(
                bucket_middle_ns(at).abs_diff(ns) as f64 <= (ns as f64 * 0.008).max(0.5),
                "{ns}"
            );
            before = at;
        }
        assert!(before < BUCKETS - 1, "the longest time-out has its own bucket");
    }
}
