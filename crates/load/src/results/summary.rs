//! Percentiles, their confidence intervals and their parts.

use curtail_stats::{Estimate, quotient};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::results::blocks::Blocks;
use crate::results::split::{Parts, Split};

/// Minimum number of samples above a reported percentile. With fewer samples, the value of the
/// percentile would be a matter of chance.
pub const SAMPLES_ABOVE_MIN: u64 = 10;

/// Percentiles and other figures of a distribution of latencies in nanoseconds, rounded to three
/// significant digits. `None` (`null` in JSON) for a percentile with fewer than
/// [`SAMPLES_ABOVE_MIN`] samples above it, and for everything if there are no samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names of the fields document them")]
pub struct Summary<T = u64> {
    pub p50: Option<T>,
    pub p90: Option<T>,
    pub p95: Option<T>,
    pub p99: Option<T>,
    pub p999: Option<T>,
    pub max: Option<T>,
    pub mean: Option<T>,
}

impl Summary {
    /// Summarizes samples, which are given in nanoseconds.
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

    /// Returns the field names of the figures that are lower bounds. These are the figures of `all`
    /// requests, and for those that are not among the `answered` ones, only a lower bound on the
    /// latency is known.
    #[must_use]
    pub fn lower_bounds(
        &self,
        answered: &Histogram<u64>,
        all: &Histogram<u64>,
    ) -> Vec<&'static str> {
        let of = |at: usize| match PER_MILLE.get(at) {
            Some(per_mille) => may_be_higher(answered, all, *per_mille),
            None => all.len() > answered.len(),
        };
        let named = Summary::<u64>::FIELDS.into_iter().enumerate().zip(self.each());
        let bounds = named.filter(|((at, _), value)| value.is_some() && of(*at));
        bounds.map(|((_, name), _)| name).collect()
    }

    /// Removes the percentile with this field name.
    pub(crate) fn forget(&mut self, field: &str) {
        let Summary { p50, p90, p95, p99, p999, .. } = self;
        let percentiles = [p50, p90, p95, p99, p999].into_iter().zip(Summary::<u64>::FIELDS);
        percentiles.filter(|(_, name)| *name == field).for_each(|(value, _)| *value = None);
    }

    /// Returns the ratio of these figures to those of another run.
    #[must_use]
    pub fn over(&self, other: &Summary) -> Summary<f64> {
        let (these, those) = (self.each(), other.each());
        let ratio = |at: usize| {
            Some(these[at]? as f64 / those[at]? as f64).filter(|ratio| ratio.is_finite())
        };
        let [p50, p90, p95, p99, p999, max, mean] = std::array::from_fn(ratio);
        Summary { p50, p90, p95, p99, p999, max, mean }
    }
}

/// The fields of a [`Summary`] that are percentiles, in order, in thousandths.
const PER_MILLE: [u32; 5] = [500, 900, 950, 990, 999];

/// Whether a percentile would be higher if the requests without a good response had taken forever.
/// The lower bounds on their latencies do not show this, because they may be below the percentile.
fn may_be_higher(answered: &Histogram<u64>, all: &Histogram<u64>, per_mille: u32) -> bool {
    let rank = (u128::from(all.len()) * u128::from(per_mille)).div_ceil(1_000) as u64;
    if rank > answered.len() {
        return true;
    }
    // Use half a rank less, because the quantile of a rank may be rounded to the next rank.
    let quantile = (rank.max(1) as f64 - 0.5) / answered.len() as f64;
    let highest = answered.value_at_quantile(quantile);
    !all.equivalent(highest, all.value_at_quantile(f64::from(per_mille) / 1_000.0))
}

impl<T: Copy> Summary<T> {
    /// The display names of the figures, in order.
    pub const NAMES: [&'static str; 7] = ["p50", "p90", "p95", "p99", "p99.9", "max", "mean"];
    /// The names of the fields, in order.
    pub const FIELDS: [&'static str; 7] = ["p50", "p90", "p95", "p99", "p999", "max", "mean"];

    /// Returns the figures, in the order of their names.
    #[must_use]
    pub fn each(&self) -> [Option<T>; 7] {
        let Summary { p50, p90, p95, p99, p999, max, mean } = *self;
        [p50, p90, p95, p99, p999, max, mean]
    }
}

/// Returns the value that `per_mille` of the samples do not exceed, if enough samples are above it.
pub(crate) fn percentile(samples: &Histogram<u64>, per_mille: u32) -> Option<u64> {
    let above = u128::from(samples.len()) * u128::from(1_000 - per_mille) / 1_000;
    let enough = above >= u128::from(SAMPLES_ABOVE_MIN);
    enough.then(|| samples.value_at_quantile(f64::from(per_mille) / 1_000.0))
}

/// A value for each percentile of a [`Summary`]. `None` if a percentile has no value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of the fields document them")]
pub struct Percentiles<T> {
    pub p50: Option<T>,
    pub p90: Option<T>,
    pub p95: Option<T>,
    pub p99: Option<T>,
    pub p999: Option<T>,
}

/// The parts of the latency at its percentiles.
pub type Splits = Percentiles<Parts>;

/// The 95 % confidence intervals of a latency's percentiles, in nanoseconds: lower and upper bound.
/// A value is also `None` if the interval cannot be estimated because the run is too short or its
/// latencies vary too much from one part to another.
pub type Intervals = Percentiles<[u64; 2]>;

impl<T: Copy> Percentiles<T> {
    /// Calls `value` with the index of each percentile, and the percentile in thousandths.
    fn of(value: impl Fn(usize, u32) -> Option<T>) -> Percentiles<T> {
        Percentiles {
            p50: value(0, 500),
            p90: value(1, 900),
            p95: value(2, 950),
            p99: value(3, 990),
            p999: value(4, 999),
        }
    }

    /// Returns the values, in the order of the percentiles.
    #[must_use]
    pub fn each(&self) -> [Option<T>; 5] {
        let Percentiles { p50, p90, p95, p99, p999 } = *self;
        [p50, p90, p95, p99, p999]
    }

    /// Whether any percentile has a value.
    #[must_use]
    pub fn any(&self) -> bool {
        self.each().iter().any(Option::is_some)
    }
}

impl Splits {
    /// Returns the display names of the parts. Omits the last part unless it is measured.
    #[must_use]
    pub fn names(&self) -> &'static [&'static str] {
        let separate = self.each().iter().flatten().any(|parts| parts.client_wake_up > 0);
        if separate { &Parts::NAMES } else { &Parts::NAMES[..3] }
    }
}

/// Returns the parts of the percentiles of `all` requests. A value is `None` if no request at that
/// percentile had a good response.
pub(crate) fn splits(split: &Split, latency: &Summary, all: u64) -> Splits {
    let latency = latency.each();
    Percentiles::of(|at, per_mille| {
        // `split` contains only good responses. All other requests are considered slower than
        // these.
        let quantile = f64::from(per_mille) / 1_000.0 * all as f64 / split.count() as f64;
        split.at(Some(quantile).filter(|quantile| *quantile <= 1.0)?, latency[at]?)
    })
}

pub(crate) fn intervals(samples: &Histogram<u64>, blocks: &Blocks, latency: &Summary) -> Intervals {
    let latency = latency.each();
    Percentiles::of(|at, per_mille| latency[at].and(interval(samples, blocks, per_mille)))
}

/// Returns the 95 % confidence intervals of the ratios that [`Summary::over`] returns, from the
/// figures of this run and of the other run, and from the intervals of both.
#[must_use]
pub fn ratio_intervals(figures: [&Summary; 2], sure: [&Intervals; 2]) -> Percentiles<[f64; 2]> {
    Percentiles::of(|at, _| {
        let estimate = |run: usize| {
            let (value, [low, high]) = figures[run].each()[at].zip(sure[run].each()[at])?;
            Some(Estimate { value: value as f64, low: low as f64, high: high as f64 })
        };
        let Estimate { low, high, .. } = quotient(estimate(0)?, estimate(1)?);
        (low.is_finite() && high.is_finite()).then_some([low, high])
    })
}

/// Returns the interval of one percentile, which is given in thousandths. Its bounds are the
/// percentiles at both bounds of the share. They are widened to whole buckets, because the
/// positions of values within a bucket are unknown. `blocks` estimates the error of the share.
pub(crate) fn interval(
    samples: &Histogram<u64>,
    blocks: &Blocks,
    per_mille: u32,
) -> Option<[u64; 2]> {
    let share = f64::from(per_mille) / 1_000.0;
    let half = blocks.share_half_width(samples.value_at_quantile(share))?;
    // There is no bound beyond the last sample.
    let inside = share - half > 0.0 && (1.0 - share - half) * samples.len() as f64 >= 1.0;
    let at = |quantile| samples.value_at_quantile(quantile);
    inside.then(|| [samples.lowest_equivalent(at(share - half)), at(share + half)])
}

/// Returns the half width of a percentile's interval, divided by its value. `None` if either is
/// unknown.
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

    /// All hiccups have the same length, so the 99th percentile is in the same bucket for every
    /// share.
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
