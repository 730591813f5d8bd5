//! Means and percentiles, computed from histograms.

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};

use crate::experiment::UNIT_NS;

/// The longest latency in a histogram, in ns (146 years, the maximum length of a run). Longer
/// latencies are recorded as this one.
const LONGEST_NS: u64 = 1 << 62;

const DIGITS: u8 = 3;

pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("these bounds make a histogram")
}

/// A percentile is reported only if at least this many samples are above it.
const SAMPLES_ABOVE: f64 = 10.0;

/// The figures of a set of latencies: the mean and some percentiles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The mean, in the unit of the experiment.
    pub mean: Option<f64>,
    /// Percentiles, each with its figure in the unit of the experiment. The figure is `None` if
    /// fewer than ten samples are above the percentile.
    #[serde(flatten, serialize_with = "by_name")]
    pub percentiles: Vec<(f64, Option<f64>)>,
}

impl Figures {
    /// Returns the figure of a percentile. `None` if the percentile was not requested or has too
    /// few samples.
    pub fn percentile(&self, percentile: f64) -> Option<f64> {
        self.percentiles.iter().find(|(p, _)| *p == percentile).and_then(|&(_, figure)| figure)
    }

    pub(crate) fn of(histogram: &Histogram<u64>, sum_ns: f64, percentiles: &[f64]) -> Self {
        let count = histogram.len();
        let unit = UNIT_NS as f64;
        let figure = |p: f64| {
            let above = count as f64 * (1.0 - p / 100.0);
            // The tenth sample must not be lost by rounding.
            (above + 1e-6 >= SAMPLES_ABOVE)
                .then(|| histogram.value_at_quantile(p / 100.0) as f64 / unit)
        };
        Self {
            mean: (count > 0).then(|| sum_ns / count as f64 / unit),
            percentiles: percentiles.iter().map(|&p| (p, figure(p))).collect(),
        }
    }

    pub(crate) fn across(all: &[Self], combine: impl Fn(&[f64]) -> Option<f64>) -> Self {
        let each = |get: &dyn Fn(&Self) -> Option<f64>| {
            let values: Option<Vec<f64>> = all.iter().map(get).collect();
            values.and_then(|values| combine(&values))
        };
        let first = all.first().map(|figures| &figures.percentiles[..]).unwrap_or_default();
        Self {
            mean: each(&|figures| figures.mean),
            percentiles: first.iter().map(|&(p, _)| (p, each(&|f| f.percentile(p)))).collect(),
        }
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        let minus = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a - b);
        let pairs = self.percentiles.iter().zip(&other.percentiles);
        Self {
            mean: minus(self.mean, other.mean),
            percentiles: pairs.map(|(&(p, a), &(_, b))| (p, minus(a, b))).collect(),
        }
    }
}

/// Writes percentiles as fields.
pub(crate) fn by_name<S: Serializer>(
    percentiles: &[(f64, Option<f64>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(percentiles.iter().map(|&(p, figure)| (name(p), figure)))
}

/// Returns the name of a percentile in JSON, such as p50, or p999 for 99.9.
pub fn name(percentile: f64) -> String {
    format!("p{}", percentile.to_string().replace('.', ""))
}
