//! Divides a run's latencies into blocks of time in order to estimate confidence intervals of the
//! percentiles, and to detect a trend.
//!
//! Consecutive latencies are correlated: a long queue is still long a moment later. A percentile of
//! 10,000 requests is therefore far less precise than one of 10,000 independent draws. If blocks
//! last much longer than this correlation, they are nearly independent. The share of slow requests
//! varies between blocks, and its variance determines the error of that share over the whole run.
//! The latencies at the two bounds of the share are then the bounds of the percentile (Woodruff
//! 1952, with the variance of a ratio over blocks as clusters).
//!
//! If a run is not stationary, its percentiles do not describe any particular moment of the run. If a
//! queue grows, for example, the percentiles depend on the length of the run. The Mann–Kendall test
//! detects a trend of any shape in the medians and the 90th percentiles of the blocks. It checks
//! whether, over all pairs of blocks, the later value is above the earlier one more often than chance
//! would explain.
//!
//! There are at most [`BLOCKS_MAX`] blocks. As a run gets longer, pairs of blocks are merged. Cost:
//! constant time per request, and O(blocks²) once for the trend.

use std::hint::black_box;

use curtail_stats::student_quantile;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::results::counts::{self, coarse_histogram};

/// Maximum number of blocks.
pub(crate) const BLOCKS_MAX: usize = 64;
/// The initial block length, in nanoseconds.
const SHORTEST_NS: u64 = 20_000_000;
/// Maximum number of times that the block length doubles. This is enough for a run of several
/// years.
const DOUBLED_MAX: u32 = 30;
/// Minimum number of blocks for an estimate of their variance.
const BLOCKS_MIN: usize = 8;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub(crate) struct Blocks {
    length_ns: u64,
    /// The latencies of each block, up to the last non-empty or preallocated block. Readers skip
    /// empty blocks.
    counts: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Block(
    #[serde(serialize_with = "counts::serialize", deserialize_with = "counts::coarse")]
    Histogram<u32>,
);

/// Blocks from another machine.
#[derive(Debug, Deserialize)]
struct Unchecked {
    length_ns: u64,
    counts: Vec<Block>,
}

impl Block {
    fn new() -> Block {
        Block(coarse_histogram())
    }

    fn merge(&mut self, other: &Block) {
        self.0.add(&other.0).expect("they have the same bounds");
    }
}

impl Blocks {
    pub(crate) fn new() -> Blocks {
        Blocks { length_ns: SHORTEST_NS, counts: Vec::new() }
    }

    /// Creates empty blocks that have the same length as those of a run that has lasted
    /// `so_far_ns`, and preallocates enough blocks for another `more_ns`. The number of blocks may
    /// exceed [`BLOCKS_MAX`], because only `merge` merges pairs of blocks.
    pub(crate) fn with_room(so_far_ns: u64, more_ns: u64) -> Blocks {
        let doubled = |times| SHORTEST_NS << times;
        let fits = |length_ns: &u64| so_far_ns.div_ceil(*length_ns) <= BLOCKS_MAX as u64;
        let length_ns = (0..DOUBLED_MAX).map(doubled).find(fits).unwrap_or(doubled(DOUBLED_MAX));
        let blocks = so_far_ns.saturating_add(more_ns).div_ceil(length_ns);
        let most = BLOCKS_MAX as u64 + more_ns.div_ceil(length_ns);
        let mut counts = vec![Block::new(); blocks.min(most) as usize];
        // The system allocates physical memory for a zeroed page only when the page is first
        // written.
        black_box(&mut counts).iter_mut().for_each(|block| block.0.reset());
        Blocks { length_ns, counts }
    }

    /// Adds the latency of a request whose intended time is `at_ns` after the start of the measured
    /// time.
    pub(crate) fn add(&mut self, at_ns: u64, latency_ns: u64) {
        let mut block = at_ns / self.length_ns;
        while block >= self.counts.len().max(BLOCKS_MAX) as u64 {
            self.coarsen();
            block = at_ns / self.length_ns;
        }
        let block = block as usize;
        if self.counts.len() <= block {
            self.counts.resize_with(block + 1, Block::new);
        }
        self.counts[block].0.saturating_record(latency_ns);
    }

    /// Merges pairs of blocks.
    fn coarsen(&mut self) {
        self.length_ns *= 2;
        let mut blocks = std::mem::take(&mut self.counts).into_iter();
        while let Some(mut first) = blocks.next() {
            blocks.next().iter().for_each(|second| first.merge(second));
            self.counts.push(first);
        }
    }

    pub(crate) fn merge(&mut self, other: &Blocks) {
        let mut other = other.used();
        if other.counts.is_empty() {
            // The block length of an empty record does not matter.
            return;
        }
        while self.length_ns < other.length_ns {
            self.coarsen();
        }
        while other.length_ns < self.length_ns {
            other.coarsen();
        }
        while other.counts.len() > BLOCKS_MAX {
            other.coarsen();
            self.coarsen();
        }
        if self.counts.len() < other.counts.len() {
            self.counts.resize_with(other.counts.len(), Block::new);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            mine.merge(theirs);
        }
    }

    /// Returns the blocks without the empty ones at the end.
    fn used(&self) -> Blocks {
        let last = self.counts.iter().rposition(|block| !block.0.is_empty());
        let counts = self.counts[..last.map_or(0, |last| last + 1)].to_vec();
        Blocks { length_ns: self.length_ns, counts }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    /// Returns half the width of the 95 % confidence interval of the share of requests at or below
    /// `ns`. `None` if there are too few blocks. Also tries longer blocks and returns the largest
    /// width, because the error is underestimated if blocks are too short to be independent.
    pub(crate) fn share_half_width(&self, ns: u64) -> Option<f64> {
        let filled = self.counts.iter().filter(|block| !block.0.is_empty());
        let mut pairs: Vec<(f64, f64)> = filled
            .map(|block| (block.0.count_between(0, ns) as f64, block.0.len() as f64))
            .collect();
        let mut widest = None;
        while pairs.len() >= BLOCKS_MIN {
            widest = Some(ratio_error(&pairs).max(widest.unwrap_or(0.0)));
            pairs = pairs
                .chunks(2)
                .map(|pair| pair.iter().fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1)))
                .collect();
        }
        widest
    }

    /// Returns the latency at `quantile`, in nanoseconds, for each block with at least `requests`
    /// requests.
    pub(crate) fn quantiles(&self, quantile: f64, requests: u64) -> Vec<f64> {
        let enough = self.counts.iter().map(|block| &block.0);
        let enough = enough.filter(|of| !of.is_empty() && of.len() >= requests);
        enough.map(|of| of.median_equivalent(of.value_at_quantile(quantile)) as f64).collect()
    }
}

impl TryFrom<Unchecked> for Blocks {
    type Error = &'static str;

    fn try_from(unchecked: Unchecked) -> Result<Blocks, &'static str> {
        let Unchecked { length_ns, counts } = unchecked;
        // Blocks of any other length cannot be merged evenly with the blocks of this record.
        let known = (0..=DOUBLED_MAX).any(|doubled| SHORTEST_NS << doubled == length_ns);
        if !known || counts.len() > BLOCKS_MAX {
            return Err("its blocks are invalid");
        }
        Ok(Blocks { length_ns, counts })
    }
}

/// Returns half the width of the 95 % confidence interval of the ratio of two sums over blocks.
fn ratio_error(pairs: &[(f64, f64)]) -> f64 {
    let (part, all) = pairs.iter().fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    let share = part / all;
    let squares: f64 = pairs.iter().map(|(part, all)| (part - share * all).powi(2)).sum();
    let blocks = pairs.len() as f64;
    let variance = squares * blocks / (blocks - 1.0) / (all * all);
    // The error is at least that of independent draws.
    let least = share * (1.0 - share) / all;
    variance.max(least).sqrt() * student_quantile(blocks - 1.0)
}

/// The test's quantile: at 3.29 standard deviations the false-positive rate is 0.001.
const Z: f64 = 3.29;
/// The smallest relevant factor between the first and the last third of the run.
const FACTOR_FINE: f64 = 1.25;
/// Minimum number of blocks for a conclusion.
const TREND_BLOCKS_MIN: usize = 10;
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
    if n < TREND_BLOCKS_MIN {
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
    use curtail_dist::seed;
    use rand_core::Rng as _;
    use rand_distr::{Distribution as _, Exp1};

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn blocks_are_bounded_and_lose_nothing() {
        let mut blocks = Blocks::new();
        for i in 0..100_000_u64 {
            blocks.add(i * MS, MS + i);
        }
        assert!(blocks.counts.len() <= BLOCKS_MAX && blocks.counts.len() > BLOCKS_MAX / 2);
        let all: u64 = blocks.counts.iter().map(|block| block.0.len()).sum();
        assert_eq!(all, 100_000);
    }

    #[test]
    fn threads_and_intervals_add_up() {
        let (mut whole, mut parts) = (Blocks::new(), [Blocks::new(), Blocks::new()]);
        for i in 0..10_000_u64 {
            let (at, latency) = (i * MS, MS + i * 100);
            whole.add(at, latency);
            // The second part covers only the first tenth of the time, so its blocks are shorter.
            parts[usize::from(i < 1_000 && i % 2 == 0)].add(at, latency);
        }
        let [mut one, other] = parts;
        assert!(other.length_ns < one.length_ns);
        let mut reverse = other.clone();
        reverse.merge(&one);
        one.merge(&other);
        assert_eq!((&one.counts, one.length_ns), (&whole.counts, whole.length_ns));
        assert_eq!(reverse.counts, whole.counts);
    }

    #[test]
    fn too_few_blocks_give_no_error() {
        let mut blocks = Blocks::new();
        assert_eq!(blocks.share_half_width(MS), None);
        for i in 0..7 {
            blocks.add(i * SHORTEST_NS, MS);
        }
        assert_eq!(blocks.share_half_width(MS), None);
        blocks.add(7 * SHORTEST_NS, 2 * MS);
        assert!(blocks.share_half_width(MS).is_some());
    }

    /// Records waiting times of an M/M/1 queue with this utilization and a mean service time of 1 ms.
    /// The share of latencies up to `latency` is 1 − e^−(1−ρ)·latency.
    fn queue(utilization: f64, requests: u64, seed: u64) -> Blocks {
        let mut rng = seed::rng(seed);
        let mut draw = |mean: f64| -> f64 {
            let one: f64 = Exp1.sample(&mut rng);
            one * mean * 1e6
        };
        let (mut blocks, mut at, mut free) = (Blocks::new(), 0.0_f64, 0.0_f64);
        // Skips the time until the queue reaches its steady state.
        for i in 0..requests + 2_000 {
            at += draw(1.0 / utilization);
            free = free.max(at) + draw(1.0);
            if i >= 2_000 {
                blocks.add(at as u64, (free - at) as u64);
            }
        }
        blocks
    }

    #[test]
    fn the_interval_of_a_percentile_covers_the_truth_of_a_queue() {
        // On average, 95 of 100 intervals cover the true percentile, with a standard deviation of 2.2.
        // With a method that assumes independent requests, only about 50 intervals cover it.
        let (utilization, quantile) = (0.7, 0.99_f64);
        let truth_ns = -(1.0 - quantile).ln() / (1.0 - utilization) * 1e6;
        let (mut covered, mut naive) = (0, 0);
        for seed in 0..100 {
            let requests = 40_000;
            let blocks = queue(utilization, requests, seed);
            let error = blocks.share_half_width(truth_ns as u64).unwrap();
            let below: u64 =
                blocks.counts.iter().map(|block| block.0.count_between(0, truth_ns as u64)).sum();
            // The upper bound of the bucket.
            let border_ns = Block::new().0.highest_equivalent(truth_ns as u64) as f64;
            let exact = 1.0 - (-(1.0 - utilization) * border_ns / 1e6).exp();
            let off = (below as f64 / requests as f64 - exact).abs();
            covered += u32::from(off <= error);
            naive +=
                u32::from(off <= 1.96 * (quantile * (1.0 - quantile) / requests as f64).sqrt());
        }
        assert!(covered >= 88, "{covered} of 100");
        assert!(naive < 80, "{naive} of 100: then blocks would not be needed");
    }

    #[test]
    fn independent_latencies_have_the_error_of_independent_draws() {
        let mut rng = seed::rng(3);
        let mut blocks = Blocks::new();
        for i in 0..100_000_u64 {
            blocks.add(i * MS / 10, if rng.next_u64().is_multiple_of(100) { 9 * MS } else { MS });
        }
        let error = blocks.share_half_width(2 * MS).unwrap();
        let expected = 1.96 * (0.01 * 0.99 / 1e5_f64).sqrt();
        assert!((1.0..2.2).contains(&(error / expected)), "{}", error / expected);
    }

    #[test]
    fn quantiles_are_those_of_each_block() {
        let mut blocks = Blocks::new();
        for block in 0..4 {
            for i in 0..100 {
                blocks.add(block * SHORTEST_NS + i, (block + 1) * MS);
            }
        }
        blocks.add(4 * SHORTEST_NS, MS);
        let medians = blocks.quantiles(0.5, 50);
        assert_eq!(medians.len(), 4, "one has too few");
        for (block, median) in medians.iter().enumerate() {
            assert!((median / ((block as f64 + 1.0) * 1e6) - 1.0).abs() < 0.01, "{median}");
        }
    }

    #[test]
    fn room_uses_the_shortest_sufficient_blocks() {
        let room = |so_far_ns, more_ns| {
            let blocks = Blocks::with_room(so_far_ns, more_ns);
            (blocks.counts.len(), blocks.length_ns / MS)
        };
        let cases = [
            (0, 0, 0, 20),
            (0, 1_000, 50, 20),
            (1_280, 0, 64, 20),
            (1_280, 1_000, 114, 20),
            (1_281, 1_000, 58, 40),
        ];
        for (so_far_ms, more_ms, blocks, length_ms) in cases {
            assert_eq!(
                room(so_far_ms * MS, more_ms * MS),
                (blocks, length_ms),
                "{so_far_ms} {more_ms}"
            );
        }
        assert_eq!(
            room(u64::MAX, MS),
            (65, 20 << DOUBLED_MAX),
            "beyond that, they double as needed"
        );
    }

    #[test]
    fn room_beyond_the_end_does_not_lengthen_blocks() {
        for run_ms in [600, 1_200, 1_300, 2_400, 9_900] {
            let (mut alone, mut sum) = (Blocks::new(), Blocks::new());
            for from_ms in (0..run_ms).step_by(500) {
                let mut next = Blocks::with_room(from_ms * MS, 1_000 * MS);
                let (blocks, until_ms) = (next.counts.len(), run_ms.min(from_ms + 500));
                for at_ms in from_ms..until_ms {
                    next.add(at_ms * MS, at_ms * 1_000);
                    alone.add(at_ms * MS, at_ms * 1_000);
                }
                assert_eq!(next.counts.len(), blocks, "{run_ms}: there was room");
                sum.merge(&next);
            }
            // The record of a thread that waited much longer for a response and got none.
            sum.merge(&Blocks::with_room(60_000 * MS, 1_000 * MS));
            assert_eq!((sum.length_ns, sum.counts.len()), (alone.length_ns, alone.counts.len()));
            assert_eq!(sum.counts, alone.counts, "{run_ms}");
        }
    }

    #[test]
    fn preallocated_blocks_are_empty() {
        let mut blocks = Blocks::new();
        for i in 0..10_000_u64 {
            blocks.add(i * MS, MS + i);
        }
        let next = Blocks::with_room(10_000 * MS, 0);
        assert_eq!((next.length_ns, next.counts.len()), (blocks.length_ns, blocks.counts.len()));
        assert_eq!((next.share_half_width(MS), next.quantiles(0.5, 0)), (None, Vec::new()));
        let mut sparse = blocks.clone();
        sparse.merge(&serde_json::from_value(serde_json::to_value(&next).unwrap()).unwrap());
        assert_eq!(sparse.counts, blocks.counts);
    }

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
