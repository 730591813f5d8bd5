//! Computes how far a p99 is below the baseline's, with a confidence interval.
//!
//! Both runs send the same requests at the same times, and successive requests are correlated. The
//! interval therefore comes from a paired bootstrap over blocks: the requests in a block stay
//! together, and each block is drawn from both runs at the same time.

use rand_core::Rng as _;
use serde::Serialize;

/// Number of blocks of consecutive requests in a run, all of the same length.
const BLOCKS: usize = 25;

/// Maximum number of bootstrap samples.
const RESAMPLES: usize = 400;

/// Approximate total number of latencies in all bootstrap samples.
const WORK: usize = 40_000_000;

/// A difference that is certainly smaller than this counts as no difference, because it would not
/// change a decision.
const SAME: f64 = 0.05;

/// Returns the mean gain of a group, the loads of its cells, and the text " on average" if there
/// are several loads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(pub(super) Vec<(u64, u64)>);

/// Relative reduction of a p99 from the baseline's p99; negative if it is higher than the
/// baseline's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Gain {
    pub(crate) value: f64,
    /// The bounds of its 95 % confidence interval.
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Lower,
    /// The difference is certainly less than [`SAME`].
    Same,
    Higher,
    /// The interval contains both gains and losses.
    Undecided,
}

impl Gain {
    pub(crate) fn new(value: f64, low: f64, high: f64) -> Self {
        let verdict = match (low, high) {
            (low, high) if low >= -SAME && high <= SAME => Verdict::Same,
            (low, _) if low > 0.0 => Verdict::Lower,
            (_, high) if high < 0.0 => Verdict::Higher,
            _ => Verdict::Undecided,
        };
        Self { value, low, high, verdict }
    }

    /// The gain of a run over the baseline. `None` if either run has too few latencies in a block.
    pub(crate) fn between(ours: &Latencies, theirs: &Latencies) -> Option<Self> {
        let places = || ours.0.iter().chain(&theirs.0).map(|(place, _)| *place);
        let (first, last) = (places().min()?, places().max()?);
        let count = (last - first) as usize + 1;
        let (ours, theirs) = (ours.blocks(first, count)?, theirs.blocks(first, count)?);
        let ratio = |drawn: &[usize]| p99(&ours, drawn) / p99(&theirs, drawn);
        let all: Vec<usize> = (0..BLOCKS).collect();
        let resamples = (WORK / count).clamp(100, RESAMPLES);
        let mut rng = curtail_kernel::rng(count as u64);
        let mut draw = || (rng.next_u64() % BLOCKS as u64) as usize;
        let drawn = |_| ratio(&(0..BLOCKS).map(|_| draw()).collect::<Vec<_>>());
        let mut ratios: Vec<f64> = (0..resamples).map(drawn).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |share: f64| ratios[(share * (resamples - 1) as f64).round() as usize];
        let value = ratio(&all);
        Some(Self::new(1.0 - value, 1.0 - at(0.975).max(value), 1.0 - at(0.025).min(value)))
    }

    /// The mean gain. The interval is computed as if the gains were independent estimates.
    pub(crate) fn mean(of: &[Self]) -> Self {
        let count = of.len() as f64;
        let value = of.iter().map(|gain| gain.value).sum::<f64>() / count;
        let off = |border: fn(&Self) -> f64| {
            let squares = of.iter().map(|gain| (gain.value - border(gain)).powi(2));
            squares.sum::<f64>().sqrt() / count
        };
        Self::new(value, value - off(|gain| gain.low), value + off(|gain| gain.high))
    }
}

impl Latencies {
    fn blocks(&self, first: u64, count: usize) -> Option<Vec<Vec<u64>>> {
        let mut blocks = vec![Vec::new(); BLOCKS];
        for &(place, ns) in &self.0 {
            blocks[(place - first) as usize * BLOCKS / count].push(ns);
        }
        blocks.iter().all(|block| block.len() >= 4).then_some(blocks)
    }
}

/// The 99th percentile of the drawn blocks.
fn p99(blocks: &[Vec<u64>], drawn: &[usize]) -> f64 {
    let mut all: Vec<u64> = drawn.iter().flat_map(|&at| &blocks[at]).copied().collect();
    let rank = (all.len() * 99).div_ceil(100) - 1;
    *all.select_nth_unstable(rank).1 as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponential(seed: u64, mean: f64, count: u64) -> Latencies {
        let mut rng = curtail_kernel::rng(seed);
        let mut unit = || ((rng.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        Latencies((0..count).map(|place| (place, (-unit().ln() * mean) as u64)).collect())
    }

    #[test]
    fn intervals_cover_the_true_gain_as_often_as_they_should() {
        let hits = (0..100).filter(|&seed| {
            let (ours, theirs) =
                (exponential(seed, 7e6, 2_500), exponential(1_000 + seed, 1e7, 2_500));
            let gain = Gain::between(&ours, &theirs).expect("enough");
            (gain.low..=gain.high).contains(&0.3)
        });
        let hits = hits.count();
        assert!(hits >= 88, "{hits} of 100");
    }

    #[test]
    fn variation_that_both_runs_share_does_not_widen_the_interval() {
        // The same requests are slow in both runs. Without pairing, the interval would be too wide
        // to decide.
        let theirs = exponential(1, 1e7, 1_000);
        let ours = Latencies(theirs.0.iter().map(|&(place, ns)| (place, ns * 9 / 10)).collect());
        let gain = Gain::between(&ours, &theirs).expect("enough");
        assert!(gain.low > 0.09 && gain.high < 0.11, "{gain:?}");
        assert_eq!(gain.verdict, Verdict::Lower);
    }

    #[test]
    fn verdicts_follow_the_interval() {
        let verdict = |low, high| Gain::new((low + high) / 2.0, low, high).verdict;
        assert_eq!(verdict(0.01, 0.3), Verdict::Lower);
        assert_eq!(verdict(-3.0, -0.1), Verdict::Higher);
        assert_eq!(verdict(-0.2, 0.3), Verdict::Undecided);
        assert_eq!(verdict(-0.04, 0.04), Verdict::Same);
        assert_eq!(verdict(0.01, 0.04), Verdict::Same, "too little to act on");
    }

    #[test]
    fn too_few_requests_are_no_comparison() {
        assert_eq!(Gain::between(&exponential(1, 1e7, 90), &exponential(2, 1e7, 90)), None);
        assert_eq!(Gain::between(&Latencies::default(), &exponential(2, 1e7, 900)), None);
    }
}
