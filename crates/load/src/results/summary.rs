//! Percentiles: of what, how sure, and what they are made of.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::results::blocks::Blocks;
use crate::results::split::{Parts, Split};

/// A percentile with fewer samples above it is not told: it would be chance.
pub const SAMPLES_ABOVE_MIN: u64 = 10;

/// Percentiles and other figures of a distribution, in nanoseconds, to three digits. `None` (`null`
/// in JSON) for a percentile with fewer than [`SAMPLES_ABOVE_MIN`] samples above it, and for
/// everything if there are no samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The median.
    pub p50: Option<u64>,
    /// The 90th percentile.
    pub p90: Option<u64>,
    /// The 95th percentile.
    pub p95: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The 99.9th percentile.
    pub p999: Option<u64>,
    /// The largest sample.
    pub max: Option<u64>,
    /// The mean.
    pub mean: Option<u64>,
}

impl Summary {
    /// Summarizes samples, in nanoseconds.
    #[must_use]
    pub fn of(samples: &Histogram<u64>) -> Summary {
        let some = !samples.is_empty();
        Summary {
            p50: percentile(samples, 500),
            p90: percentile(samples, 900),
            p95: percentile(samples, 950),
            p99: percentile(samples, 990),
            p999: percentile(samples, 999),
            max: some.then(|| samples.max()),
            mean: some.then(|| samples.mean().round() as u64),
        }
    }
}

/// The value that `per_mille` of the samples do not exceed, if enough samples are above it.
pub(crate) fn percentile(samples: &Histogram<u64>, per_mille: u32) -> Option<u64> {
    let above = u128::from(samples.len()) * u128::from(1_000 - per_mille) / 1_000;
    let enough = above >= u128::from(SAMPLES_ABOVE_MIN);
    enough.then(|| samples.value_at_quantile(f64::from(per_mille) / 1_000.0))
}

/// The parts of the latency at its percentiles, as [`Summary`] has them: told where the percentile
/// is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Splits {
    /// Of the median.
    pub p50: Option<Parts>,
    /// Of the 90th percentile.
    pub p90: Option<Parts>,
    /// Of the 95th percentile.
    pub p95: Option<Parts>,
    /// Of the 99th percentile.
    pub p99: Option<Parts>,
    /// Of the 99.9th percentile.
    pub p999: Option<Parts>,
}

impl Splits {
    pub(crate) fn of(split: &Split, latency: &Summary) -> Splits {
        let at = |told: Option<u64>, quantile| told.and_then(|ns| split.at(quantile, ns));
        Splits {
            p50: at(latency.p50, 0.5),
            p90: at(latency.p90, 0.9),
            p95: at(latency.p95, 0.95),
            p99: at(latency.p99, 0.99),
            p999: at(latency.p999, 0.999),
        }
    }
}

/// The 95 % confidence intervals of a latency's percentiles, in nanoseconds: lower and upper border.
/// `None` where the percentile is not told, or where the run is too short or its latencies vary too
/// much from one part of it to the next to tell how sure it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intervals {
    /// Of the median.
    pub p50: Option<[u64; 2]>,
    /// Of the 90th percentile.
    pub p90: Option<[u64; 2]>,
    /// Of the 95th percentile.
    pub p95: Option<[u64; 2]>,
    /// Of the 99th percentile.
    pub p99: Option<[u64; 2]>,
    /// Of the 99.9th percentile.
    pub p999: Option<[u64; 2]>,
}

impl Intervals {
    pub(crate) fn of(samples: &Histogram<u64>, blocks: &Blocks, latency: &Summary) -> Intervals {
        let at =
            |told: Option<u64>, per_mille| told.and_then(|_| interval(samples, blocks, per_mille));
        Intervals {
            p50: at(latency.p50, 500),
            p90: at(latency.p90, 900),
            p95: at(latency.p95, 950),
            p99: at(latency.p99, 990),
            p999: at(latency.p999, 999),
        }
    }
}

/// The interval of one percentile, in thousandths: the percentiles at the two borders of its share, with all of
/// their buckets, for where in a bucket a sample is nobody knows. See `blocks` for how sure that share is.
pub(crate) fn interval(
    samples: &Histogram<u64>,
    blocks: &Blocks,
    per_mille: u32,
) -> Option<[u64; 2]> {
    let share = f64::from(per_mille) / 1_000.0;
    let half = blocks.share_error(samples.value_at_quantile(share))?.half_width();
    // Beyond the last sample there is no border.
    let inside = share - half > 0.0 && (1.0 - share - half) * samples.len() as f64 >= 1.0;
    let at = |quantile| samples.value_at_quantile(quantile);
    inside.then(|| [samples.lowest_equivalent(at(share - half)), at(share + half)])
}

/// Half of the interval of a percentile, over its value; none if either is not told.
pub(crate) fn relative_error(
    samples: &Histogram<u64>,
    blocks: &Blocks,
    per_mille: u32,
) -> Option<f64> {
    let value = percentile(samples, per_mille)?;
    let [low, high] = interval(samples, blocks, per_mille)?;
    Some((high - low) as f64 / 2.0 / value.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hiccups are all as long, so the 99th percentile is in one bucket wherever its share may be.
    #[test]
    fn an_interval_is_no_narrower_than_a_bucket() {
        let (mut samples, mut blocks) = (crate::histogram(), Blocks::new());
        for at in 0..10_000 {
            let ns = if at % 20 == 0 { 101_000_000 } else { 5_000_000 };
            samples.record(ns).unwrap();
            blocks.add(at * 1_000_000, ns);
        }
        let [low, high] = interval(&samples, &blocks, 990).unwrap();
        assert_eq!(high, percentile(&samples, 990).unwrap());
        assert_eq!(high - low + 1, samples.equivalent_range(101_000_000));
        assert!((low..=high).contains(&101_000_000) && high - low > 60_000, "{low} to {high}");
        let relative = relative_error(&samples, &blocks, 990).unwrap();
        assert!((0.000_3..0.000_5).contains(&relative), "{relative}");
    }
}
