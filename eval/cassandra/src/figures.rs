//! Figures of rounds, and the comparison of contenders.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Latencies of reads, in ms.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Latency {
    pub(crate) reads: usize,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// Number of reads per 100 ms at the busiest node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Load {
    pub(crate) node: usize,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Index of dispersion: variance over mean. It is 1 if reads arrive at random.
    pub(crate) dispersion: f64,
}

/// A ratio measured over several rounds: the geometric mean and its 95 % interval. A single round
/// has no interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Ratio {
    pub(crate) ratio: f64,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
}

pub(crate) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Returns a percentile of sorted values: the lowest value such that this share of the values does
/// not exceed it. NaN if there are none.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let at = (share * values.len() as f64).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the standard deviation, estimated from a sample. NaN for fewer than two values.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

pub(crate) fn latency(reads: Vec<f64>) -> Latency {
    let all = sorted(reads);
    let [p50, p95, p99, p999, max] = [0.5, 0.95, 0.99, 0.999, 1.0].map(|at| percentile(&all, at));
    Latency { reads: all.len(), mean: mean(&all), p50, p95, p99, p999, max }
}

/// Returns the load of the busiest node. `loads` has one element per node.
pub(crate) fn load(loads: &[Vec<f64>]) -> Load {
    let sums = loads.iter().map(|node| node.iter().sum::<f64>());
    let busiest = sums.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((node, _)) = busiest else { return Load::default() };
    let all = sorted(loads[node].clone());
    let mean = mean(&all);
    let (p50, p99) = (percentile(&all, 0.5), percentile(&all, 0.99));
    Load { node, mean, p50, p99, dispersion: deviation(&all).powi(2) / mean }
}

/// Returns the ratio of `first` to `second`, compared round by round.
pub(crate) fn ratio(first: &[f64], second: &[f64]) -> Ratio {
    let logs: Vec<f64> = first.iter().zip(second).map(|(one, other)| (one / other).ln()).collect();
    let middle = mean(&logs);
    let half = StudentsT::new(0.0, 1.0, logs.len() as f64 - 1.0)
        .ok()
        .map(|student| student.inverse_cdf(0.975) * deviation(&logs) / (logs.len() as f64).sqrt());
    Ratio {
        ratio: middle.exp(),
        low: half.map(|half| (middle - half).exp()),
        high: half.map(|half| (middle + half).exp()),
    }
}

/// Returns the highest median of any `window` consecutive reads. The reads are in the order in
/// which they were due.
pub(crate) fn worst_median(reads: &[f64], window: usize) -> f64 {
    reads
        .windows(window)
        .map(|part| percentile(&sorted(part.to_vec()), 0.5))
        .fold(f64::NAN, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_recorded_values() {
        let seen = latency((1..=1000).rev().map(f64::from).collect());
        assert_eq!((seen.p50, seen.p99, seen.p999, seen.max), (500.0, 990.0, 999.0, 1000.0));
        assert_eq!(seen.mean, 500.5);
        assert!(latency(Vec::new()).p99.is_nan());
    }

    #[test]
    fn the_load_is_that_of_the_busiest_node() {
        let load = load(&[vec![1.0, 2.0], vec![10.0, 20.0, 30.0], vec![5.0]]);
        assert_eq!((load.node, load.mean, load.p50, load.p99), (1, 20.0, 20.0, 30.0));
        assert_eq!(load.dispersion, 5.0);
    }

    #[test]
    fn ratios_are_geometric_and_have_students_interval() {
        let one = ratio(&[2.0, 8.0], &[1.0, 1.0]);
        assert!((one.ratio - 4.0).abs() < 1e-12);
        // The deviation of the logarithms is ln 2 · √2, so half of the interval is 12.706 · ln 2.
        let high = 4.0 * 2.0_f64.powf(12.706);
        assert!((one.high.unwrap() / high - 1.0).abs() < 1e-3, "{one:?}");
        assert_eq!(ratio(&[2.0], &[1.0]).low, None);
    }

    #[test]
    fn a_moving_median_finds_a_spike_that_lasts() {
        let mut reads = vec![1.0; 100];
        reads[50] = 90.0;
        assert_eq!(worst_median(&reads, 5), 1.0);
        reads[50..54].fill(90.0);
        assert_eq!(worst_median(&reads, 5), 90.0);
    }
}
