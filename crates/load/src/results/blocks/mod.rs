//! Divides a run's latencies into blocks of time in order to estimate confidence intervals of the
//! percentiles.
//!
//! Consecutive latencies are correlated: a long queue is still long a moment later. A percentile of
//! 10,000 requests is therefore far less precise than one of 10,000 independent draws. If blocks
//! last much longer than this correlation, they are nearly independent. The share of slow requests
//! varies between blocks, and its variance determines the error of that share over the whole run.
//! The latencies at the two bounds of the share are then the bounds of the percentile (Woodruff
//! 1952, with the variance of a ratio over blocks as clusters).
//!
//! There are at most [`BLOCKS_MAX`] blocks. As a run gets longer, pairs of blocks are merged. Cost:
//! constant time per request.

use std::hint::black_box;

use curtail_jitter::student_quantile;
use serde::{Deserialize, Serialize, Serializer};

use crate::results::split::{BUCKETS, bucket_middle_ns, bucket_of};

/// Maximum number of blocks.
pub(crate) const BLOCKS_MAX: usize = 64;
/// The initial block length, in nanoseconds.
const SHORTEST_NS: u64 = 20_000_000;
/// Maximum number of times that the block length doubles. This is enough for a run of several
/// years.
const DOUBLED_MAX: u32 = 30;
/// Minimum number of blocks for an estimate of their variance.
const BLOCKS_MIN: usize = 8;

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "SparseBlocks")]
pub(crate) struct Blocks {
    length_ns: u64,
    /// One count per block and bucket, up to the last non-empty or preallocated block. Readers skip
    /// empty blocks.
    counts: Vec<Vec<u32>>,
}

/// Blocks without their empty buckets.
#[derive(Debug, Serialize, Deserialize)]
struct SparseBlocks {
    length_ns: u64,
    /// For each block, its non-empty buckets and their counts.
    counts: Vec<Vec<(u32, u32)>>,
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
        let mut counts = vec![vec![0; BUCKETS]; blocks.min(most) as usize];
        // The system allocates physical memory for a zeroed page only when the page is first
        // written.
        black_box(&mut counts).iter_mut().for_each(|counts| counts.fill(0));
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
            self.counts.resize_with(block + 1, || vec![0; BUCKETS]);
        }
        let count = &mut self.counts[block][bucket_of(latency_ns)];
        *count = count.saturating_add(1);
    }

    /// Merges pairs of blocks.
    fn coarsen(&mut self) {
        self.length_ns *= 2;
        let mut pairs = Vec::with_capacity(BLOCKS_MAX);
        for pair in self.counts.chunks_mut(2) {
            let mut first = std::mem::take(&mut pair[0]);
            if let Some(second) = pair.get(1) {
                add_up(&mut first, second);
            }
            pairs.push(first);
        }
        self.counts = pairs;
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
            self.counts.resize_with(other.counts.len(), || vec![0; BUCKETS]);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            add_up(mine, theirs);
        }
    }

    /// Returns the blocks without the empty ones at the end.
    fn used(&self) -> Blocks {
        let last = self.counts.iter().rposition(|counts| counts.iter().any(|count| *count > 0));
        let counts = self.counts[..last.map_or(0, |last| last + 1)].to_vec();
        Blocks { length_ns: self.length_ns, counts }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    /// Returns the standard error of the share of requests at or below `ns`. `None` if there are
    /// too few blocks. Also tries longer blocks and returns the largest error, because the error is
    /// underestimated if blocks are too short to be independent.
    pub(crate) fn share_error(&self, ns: u64) -> Option<Error> {
        let last = bucket_of(ns);
        let mut pairs: Vec<(f64, f64)> = self
            .counts
            .iter()
            .map(|counts| {
                let sum = |of: &[u32]| of.iter().map(|count| f64::from(*count)).sum::<f64>();
                (sum(&counts[..=last]), sum(counts))
            })
            .filter(|(_, all)| *all > 0.0)
            .collect();
        let mut widest: Option<Error> = None;
        while pairs.len() >= BLOCKS_MIN {
            let error = ratio_error(&pairs);
            let wide = |error: &Error| error.half_width();
            if widest.as_ref().is_none_or(|widest| wide(&error) > wide(widest)) {
                widest = Some(error);
            }
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
        let of = |counts: &Vec<u32>| {
            let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
            let rank = ((quantile * all as f64).ceil() as u64).max(1);
            let mut below = 0;
            let at = counts.iter().position(|count| {
                below += u64::from(*count);
                below >= rank
            });
            (all >= requests).then(|| at.map(|at| bucket_middle_ns(at) as f64)).flatten()
        };
        self.counts.iter().filter_map(of).collect()
    }
}

/// Omits empty buckets.
impl Serialize for Blocks {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let counted = |counts: &Vec<u32>| {
            let all = counts.iter().enumerate().map(|(at, count)| (at as u32, *count));
            all.filter(|(_, count)| *count > 0).collect()
        };
        let counts = self.counts.iter().map(counted).collect();
        SparseBlocks { length_ns: self.length_ns, counts }.serialize(to)
    }
}

impl TryFrom<SparseBlocks> for Blocks {
    type Error = &'static str;

    fn try_from(sparse: SparseBlocks) -> Result<Blocks, &'static str> {
        let SparseBlocks { length_ns, counts } = sparse;
        // Blocks of any other length cannot be merged evenly with the blocks of this record.
        let known = (0..=DOUBLED_MAX).any(|doubled| SHORTEST_NS << doubled == length_ns);
        if !known || counts.len() > BLOCKS_MAX {
            return Err("its blocks are invalid");
        }
        let mut blocks = Blocks { length_ns, counts: Vec::new() };
        for block in counts {
            let mut counts = vec![0; BUCKETS];
            for (at, count) in block {
                *counts.get_mut(at as usize).ok_or("its blocks are invalid")? = count;
            }
            blocks.counts.push(counts);
        }
        Ok(blocks)
    }
}

/// The estimated error of a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Error {
    pub(crate) standard: f64,
    /// The degrees of freedom.
    pub(crate) freedom: usize,
}

impl Error {
    /// Returns the half width of the 95 % confidence interval.
    pub(crate) fn half_width(&self) -> f64 {
        self.standard * student_quantile(self.freedom as f64)
    }
}

/// Returns the error of the ratio of two sums over blocks.
fn ratio_error(pairs: &[(f64, f64)]) -> Error {
    let (part, all) = pairs.iter().fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    let share = part / all;
    let squares: f64 = pairs.iter().map(|(part, all)| (part - share * all).powi(2)).sum();
    let blocks = pairs.len() as f64;
    let variance = squares * blocks / (blocks - 1.0) / (all * all);
    // The error is at least that of independent draws.
    let least = share * (1.0 - share) / all;
    Error { standard: variance.max(least).sqrt(), freedom: pairs.len() - 1 }
}

fn add_up(mine: &mut [u32], theirs: &[u32]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine = mine.saturating_add(*theirs);
    }
}

#[cfg(test)]
mod tests;
