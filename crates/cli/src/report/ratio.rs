//! Percentiles over those of another run, and how sure the ratios are.

use curtail_load::{Intervals, Summary};
use serde::Serialize;

/// Percentiles over others.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Ratios {
    pub(super) p50: Option<f64>,
    pub(super) p90: Option<f64>,
    pub(super) p95: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) p999: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) mean: Option<f64>,
}

/// Their 95 % confidence intervals; none where a percentile is not told, or nobody knows how sure it is.
#[derive(Clone, Copy, Serialize)]
pub(super) struct RatioIntervals {
    pub(super) p50: Option<[f64; 2]>,
    pub(super) p90: Option<[f64; 2]>,
    pub(super) p95: Option<[f64; 2]>,
    pub(super) p99: Option<[f64; 2]>,
    pub(super) p999: Option<[f64; 2]>,
}

impl Ratios {
    pub(super) fn of(these: &Summary, those: &Summary) -> Self {
        let ratio = |this: Option<u64>, that: Option<u64>| {
            Some(this? as f64 / that? as f64).filter(|ratio| ratio.is_finite())
        };
        Self {
            p50: ratio(these.p50, those.p50),
            p90: ratio(these.p90, those.p90),
            p95: ratio(these.p95, those.p95),
            p99: ratio(these.p99, those.p99),
            p999: ratio(these.p999, those.p999),
            max: ratio(these.max, those.max),
            mean: ratio(these.mean, those.mean),
        }
    }
}

impl RatioIntervals {
    /// Of this run over that one.
    pub(super) fn of(this: (&Summary, &Intervals), that: (&Summary, &Intervals)) -> Self {
        let ((latency, sure), (other, other_sure)) = (this, that);
        Self {
            p50: interval(latency.p50, sure.p50, other.p50, other_sure.p50),
            p90: interval(latency.p90, sure.p90, other.p90, other_sure.p90),
            p95: interval(latency.p95, sure.p95, other.p95, other_sure.p95),
            p99: interval(latency.p99, sure.p99, other.p99, other_sure.p99),
            p999: interval(latency.p999, sure.p999, other.p999, other_sure.p999),
        }
    }

    /// Is anything known?
    pub(super) fn any(&self) -> bool {
        let Self { p50, p90, p95, p99, p999 } = self;
        [p50, p90, p95, p99, p999].into_iter().any(Option::is_some)
    }
}

/// The interval of a ratio from those of its two parts, which are of different runs and so independent:
/// the distances of their borders from the estimates add up as standard errors do, on the scale of
/// logarithms, where a ratio is a difference (the method of variance estimates recovery, Zou and Donner
/// 2008). It keeps intervals lopsided that are.
fn interval(
    this: Option<u64>,
    sure: Option<[u64; 2]>,
    that: Option<u64>,
    other_sure: Option<[u64; 2]>,
) -> Option<[f64; 2]> {
    let log = |ns: u64| (ns as f64).ln();
    let (this, that) = (log(this?), log(that?));
    let ([low, high], [other_low, other_high]) = (sure?.map(log), other_sure?.map(log));
    let ratio = this - that;
    let down = (this - low).hypot(other_high - that);
    let up = (high - this).hypot(that - other_low);
    let borders = [(ratio - down).exp(), (ratio + up).exp()];
    borders.iter().all(|border| border.is_finite()).then_some(borders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sure_of_both_is_sure_of_the_ratio() {
        let of = |sure, other_sure| interval(Some(200), sure, Some(100), other_sure);
        let near = |found: Option<[f64; 2]>, expected: [f64; 2]| {
            let found = found.expect("an interval");
            let off = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(off < 1e-9, "{found:?}, not {expected:?}");
        };
        // Only one of them is unsure.
        near(of(Some([100, 400]), Some([100, 100])), [1.0, 4.0]);
        near(of(Some([200, 200]), Some([50, 200])), [1.0, 4.0]);
        // Both are, by a factor of 2: as legs of a triangle.
        let both = 2.0_f64.powf(2.0_f64.sqrt());
        near(of(Some([100, 400]), Some([50, 200])), [2.0 / both, 2.0 * both]);
        assert_eq!(of(None, Some([50, 200])), None);
        near(of(Some([0, 200]), Some([100, 100])), [0.0, 2.0]);
    }
}
