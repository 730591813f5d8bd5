//! Tests whether the latencies rose or fell during the run.
//!
//! If a run is not stationary, its percentiles do not describe any particular moment of the run. If
//! a queue grows, for example, the percentiles depend on the length of the run. The Mann–Kendall
//! test detects a trend of any shape in the medians and the 90th percentiles of blocks of time. It
//! checks whether, over all pairs of blocks, the later value is above the earlier one more often
//! than chance would explain.
//!
//! Cost: O(blocks²), once.

use crate::results::blocks::Blocks;

/// The test's quantile: at 3.29 standard deviations the false-positive rate is 0.001.
const Z: f64 = 3.29;
/// The smallest relevant factor between the first and the last third of the run.
const FACTOR_FINE: f64 = 1.25;
/// Minimum number of blocks for a conclusion.
const BLOCKS_MIN: usize = 10;
/// Minimum number of requests for a reliable percentile of a block.
const REQUESTS_MIN: u64 = 20;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    /// The percentile that shows the trend, in percent.
    pub(crate) percentile: u32,
    /// Mean of the percentile over the first and the last third of the blocks, in nanoseconds.
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
}

/// Returns the trend of a run, if it is significant.
pub(crate) fn trend(blocks: &Blocks) -> Option<Trend> {
    [50, 90].into_iter().find_map(|percentile| {
        let values = blocks.quantiles(f64::from(percentile) / 100.0, REQUESTS_MIN);
        let (first_ns, last_ns) = trend_of(&values)?;
        Some(Trend { percentile, first_ns, last_ns })
    })
}

fn trend_of(values: &[f64]) -> Option<(u64, u64)> {
    let n = values.len();
    if n < BLOCKS_MIN {
        return None;
    }
    let mut s = 0.0_f64;
    for (i, earlier) in values.iter().enumerate() {
        for later in &values[i + 1..] {
            s += match later.total_cmp(earlier) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.0,
                std::cmp::Ordering::Less => -1.0,
            };
        }
    }
    let count = n as f64;
    let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (first, last) = (mean(&values[..n / 3]), mean(&values[n - n / 3..]));
    let factor = (last / first).max(first / last);
    // Neighboring blocks correlate in a queue, so chance causes larger deviations than for
    // independent values. Twice Kendall's deviation allows for a correlation of 0.6. A small number
    // of blocks cannot reach that limit, so three quarters of the maximum are then sufficient.
    let limit = (2.0 * Z * deviation).min(0.75 * count * (count - 1.0) / 2.0);
    (s.abs() > limit && factor > FACTOR_FINE).then_some((first as u64, last as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use curtail_dist::seed;
    use rand_distr::{Distribution as _, Exp1};

    /// Returns values around 1 ms with the autocorrelation `memory`.
    fn noise(seed: u64, memory: f64, count: usize) -> Vec<f64> {
        let mut rng = seed::rng(seed);
        let mut last = 0.0;
        let mut next = || {
            let one: f64 = Exp1.sample(&mut rng);
            last = memory * last + (one - 1.0) * (1.0 - memory * memory).sqrt();
            1e6 * (1.0 + 0.3 * last)
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_steady_run_has_no_trend_even_if_neighbors_correlate() {
        for memory in [0.0, 0.6] {
            let found =
                (0..500).filter(|seed| trend_of(&noise(*seed, memory, 40)).is_some()).count();
            assert!(found <= 2, "{found} of 500 with {memory}");
        }
    }

    #[test]
    fn a_growing_queue_has_a_trend() {
        for blocks in [10, 20, 60] {
            let mut values = noise(1, 0.3, blocks);
            values.iter_mut().enumerate().for_each(|(i, value)| {
                *value += 4e6 * i as f64 / blocks as f64;
            });
            let (first, last) = trend_of(&values).unwrap();
            assert!(last > 2 * first, "{first} {last}");
            values.reverse();
            assert!(trend_of(&values).is_some(), "a warming cache is a trend as well");
        }
    }

    #[test]
    fn a_small_trend_is_not_reported() {
        let values: Vec<f64> = (0..60).map(|i| 1e6 + 1e3 * f64::from(i)).collect();
        assert_eq!(trend_of(&values), None);
        assert_eq!(trend_of(&[1.0, 2.0, 3.0]), None, "too few blocks");
    }
}
