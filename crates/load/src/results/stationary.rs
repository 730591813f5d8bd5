//! Did the latencies stay what they were, or did they go up or down during the run?
//!
//! The percentiles of a run that is not stationary are of no moment of it: a queue that grows makes
//! them as high as the run is long. Mann and Kendall's test looks for a trend in the medians and the 90th
//! percentiles of blocks of time, whatever its shape: of all pairs of blocks, is the later one above the
//! earlier one more often than chance would have it?
//!
//! Cost: O(blocks²), once.

use crate::results::blocks::Blocks;

/// The chance of finding a trend by chance, at 3.29 standard deviations: 0.001.
const Z: f64 = 3.29;
/// A change from the first third to the last by a smaller factor matters to nobody.
const FACTOR_FINE: f64 = 1.25;
/// Fewer blocks tell no trend.
const BLOCKS_MIN: usize = 10;
/// A block with fewer requests has no percentile to speak of.
const REQUESTS_MIN: u64 = 20;

/// A trend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    /// Which percentile, in percent.
    pub(crate) percentile: u32,
    /// Its mean over the first and the last third of the blocks, in nanoseconds.
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
}

/// The trend of a run, if it has one.
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
    // Neighbors are alike in a queue, so chance alone reaches further than for independent values:
    // Kendall's deviation is doubled, which allows for a correlation of 0.6 between neighbors. Few
    // blocks never get that far: where three quarters of all that is possible point one way, do.
    let limit = (2.0 * Z * deviation).min(0.75 * count * (count - 1.0) / 2.0);
    (s.abs() > limit && factor > FACTOR_FINE).then_some((first as u64, last as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use curtail_dist::seed;
    use rand_distr::{Distribution as _, Exp1};

    /// Values around 1 ms that remember the last one.
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
    fn a_steady_run_has_no_trend_even_where_neighbors_are_alike() {
        for memory in [0.0, 0.6] {
            let found =
                (0..500).filter(|seed| trend_of(&noise(*seed, memory, 40)).is_some()).count();
            assert!(found <= 2, "{found} of 500 with {memory}");
        }
    }

    #[test]
    fn a_queue_that_grows_has_one() {
        for blocks in [10, 20, 60] {
            let mut values = noise(1, 0.3, blocks);
            values.iter_mut().enumerate().for_each(|(i, value)| {
                *value += 4e6 * i as f64 / blocks as f64;
            });
            let (first, last) = trend_of(&values).unwrap();
            assert!(last > 2 * first, "{first} {last}");
            values.reverse();
            assert!(trend_of(&values).is_some(), "a cache that warms up is no better");
        }
    }

    #[test]
    fn a_trend_that_nobody_would_feel_is_none() {
        let values: Vec<f64> = (0..60).map(|i| 1e6 + 1e3 * f64::from(i)).collect();
        assert_eq!(trend_of(&values), None);
        assert_eq!(trend_of(&[1.0, 2.0, 3.0]), None, "too few to tell");
    }
}
