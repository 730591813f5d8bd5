//! Histograms, and their form in messages between machines.
//!
//! Deserialization rejects impossible values, so that no sum overflows.

use hdrhistogram::{Counter, Histogram};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize as _, Deserializer, Serialize, Serializer};

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

/// Creates a histogram like [`histogram`], with two significant digits and small counts.
pub(super) fn coarse_histogram() -> Histogram<u32> {
    let fine = histogram();
    Histogram::new_with_max(fine.high(), 2).expect("the bound and the digits are in range")
}

/// Creates a histogram with four significant digits and a range that grows with its values.
pub(super) fn growing_histogram() -> Histogram<u64> {
    let mut counts = Histogram::new(4).expect("four digits are in range");
    counts.auto(true);
    counts
}

/// Serializes a histogram as values and their counts.
pub(super) fn serialize<T: Counter + Serialize, S: Serializer>(
    counts: &Histogram<T>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(counts.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value())))
}

/// Deserializes into a [`histogram`].
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
    filled(histogram(), from)
}

/// Deserializes into a [`coarse_histogram`].
pub(super) fn coarse<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u32>, D::Error> {
    filled(coarse_histogram(), from)
}

/// Deserializes into a [`growing_histogram`].
pub(super) fn growing<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
    filled(growing_histogram(), from)
}

fn filled<'de, T: Counter + DeserializeOwned, D: Deserializer<'de>>(
    mut counts: Histogram<T>,
    from: D,
) -> Result<Histogram<T>, D::Error> {
    for (value, count) in Vec::<(u64, T)>::deserialize(from)? {
        let is_possible = value <= GROWN_MAX && count.as_u64() <= COUNT_MAX;
        if !is_possible || counts.record_n(value, count).is_err() {
            return Err(D::Error::custom("a histogram contains impossible counts"));
        }
    }
    Ok(counts)
}
