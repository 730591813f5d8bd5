//! The results of the demo, and how far each p99 is below the baseline's, with a confidence interval.
//!
//! Both runs send the same requests at the same times, and successive requests are correlated. The
//! interval therefore comes from a paired bootstrap over blocks: the requests in a block stay
//! together, and each block is drawn from both runs at the same time.

use std::collections::BTreeMap;

use curtail_load::Histogram;
use curtail_machine::Taken;
use rand_core::Rng as _;
use serde::Serialize;

use crate::exit::Typed;

/// The document of `curtail demo --json`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Results {
    /// Utilizations of the leaves, based on the mean of the queries' own service time: λ P̄ / (r
    /// c).
    pub(crate) loads: Vec<f64>,
    /// The cells of each policy, one per load.
    pub(crate) policies: BTreeMap<String, Vec<LoadPoint>>,
    /// The policies in the order in which they ran.
    #[serde(skip)]
    pub(crate) order: Vec<String>,
    /// The measured system, and how it was measured.
    pub(crate) setup: Setup,
    /// Set if other processes disturbed some cells. This warning must be read before any figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) busy_machine: Option<Typed<Busy>>,
    /// Whether the run stopped early, so that cells are missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) partial: bool,
    /// Path of the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) report: Option<String>,
}

/// How much other processes disturbed the cells. The shares are means over the disturbed cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename = "busy_machine")]
pub(crate) struct Busy {
    pub(crate) disturbed: usize,
    pub(crate) cells: usize,
    #[serde(flatten)]
    pub(crate) taken: Taken,
}

/// The measurement of one policy at one load. Latencies are those of whole requests, measured from
/// their intended send times.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LoadPoint {
    /// Intended utilization.
    pub(crate) load: f64,
    /// Median latency, in ms.
    pub(crate) p50_ms: Option<f64>,
    /// The 99th percentile of the latency, in ms; `None` if fewer than 10 samples are above it.
    pub(crate) p99_ms: Option<f64>,
    /// The 99.9th percentile of the latency, in ms; `None` if fewer than 10 samples are above it.
    pub(crate) p999_ms: Option<f64>,
    /// Mean number of copies per query.
    pub(crate) copies_per_query: f64,
    /// Requests per second, offered and achieved.
    pub(crate) offered_rate: f64,
    pub(crate) achieved_rate: f64,
    /// Number of measured requests.
    pub(crate) requests: u64,
    /// Number of requests without a response.
    pub(crate) errors: u64,
    /// How much of this machine other processes used while the cell was measured. `None` if
    /// unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<Taken>,
    /// Whether other processes used so much of the machine that the cell reflects the machine
    /// rather than the policy.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) disturbed: bool,
    /// Whether the cell was measured twice because it was disturbed. This is the less disturbed
    /// measurement.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) repeated: bool,
    /// Whether the measurement is sound. If not, `invalid_because` has the reasons.
    pub(crate) valid: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) invalid_because: Vec<String>,
    /// All latencies. `withheld` is set if the far tail is not reported, because the load generator
    /// was late.
    #[serde(skip)]
    pub(crate) histogram: Histogram<u64>,
    #[serde(skip)]
    pub(crate) withheld: bool,
    /// Gain over the baseline, if both measurements are sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_gain: Option<Gain>,
    /// The gain of rescue over the learned-delay hedge, if both measurements are sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_gain_over_learned: Option<Gain>,
    #[serde(skip)]
    pub(crate) latencies: Latencies,
}

/// The measured system, and how it was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Setup {
    /// Number of shards, of replicas per shard, and of slots per leaf.
    pub(crate) shards: u32,
    pub(crate) replicas: u32,
    pub(crate) slots: u32,
    /// A description of the corpus, and its number of documents.
    pub(crate) corpus: String,
    pub(crate) documents: u64,
    /// The distribution of a query's service time, as on the command line, and the source of
    /// hiccups.
    pub(crate) service_time: String,
    pub(crate) hiccup: String,
    /// A sentence on the dependence between drawn hiccups; empty if none are drawn.
    pub(crate) strata: String,
    /// P̄ in ms.
    pub(crate) service_mean_ms: f64,
    pub(crate) seed: u64,
    /// Measured requests per cell.
    pub(crate) requests: u64,
    /// A sentence on which parts of the system are real and which are stretched.
    pub(crate) honesty: String,
    /// The command that repeats the run.
    pub(crate) command: String,
    /// Duration of the run, in seconds.
    pub(crate) elapsed_s: f64,
}

/// Whether two loads are equal. Loads are given as fractions and never computed.
pub(super) fn same_load(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

impl LoadPoint {
    /// Whether the cell may be compared.
    pub(crate) fn sound(&self) -> bool {
        self.valid && !self.disturbed
    }
}

impl Results {
    /// Summarizes how much other processes disturbed the cells.
    pub(crate) fn watch(&mut self) {
        let cells = self.policies.values().flatten();
        let taken: Vec<Taken> =
            cells.clone().filter(|cell| cell.disturbed).filter_map(|cell| cell.machine).collect();
        let (disturbed, cells) = (taken.len(), cells.count());
        let mean = |of: fn(&Taken) -> f64| taken.iter().map(of).sum::<f64>() / disturbed as f64;
        let taken =
            Taken { others: mean(|of| of.others), stolen: mean(|of| of.stolen), stalled: None };
        self.busy_machine = (disturbed > 0).then(|| {
            let text = match disturbed == cells {
                true => format!(
                    "These figures are about this machine, not about the policies: {taken}. Run \
                     the demo again while it is idle."
                ),
                false => format!(
                    "{disturbed} of {cells} cells (*) are about this machine, not about the \
                     policies: {taken}. They are not compared."
                ),
            };
            Typed::new(Busy { disturbed, cells, taken }, text)
        });
    }

    /// The policies, in the order in which they are shown.
    pub(crate) fn policies(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }

    /// The policy that the others are compared with, which is `psq` if it ran, and otherwise the
    /// first.
    pub(crate) fn baseline(&self) -> Option<&str> {
        self.policies().find(|name| *name == "psq").or_else(|| self.policies().next())
    }

    /// Rescue and the learned-delay hedge, if both ran.
    pub(crate) fn rivals(&self) -> Option<(&str, &str)> {
        let named = |prefix: &str| self.policies().find(|name| name.starts_with(prefix));
        named("rescue").zip(named("delayed:p"))
    }

    /// Compares every cell with the baseline's cell at the same load, and the cells of rescue with
    /// those of the learned-delay hedge.
    pub(crate) fn compare(&mut self) {
        let Some(baseline) = self.baseline().map(str::to_owned) else { return };
        let cells = |of: &str| self.policies.get(of).cloned().unwrap_or_default();
        let theirs = cells(&baseline);
        let rivals = self.rivals().map(|(rescue, learned)| (rescue.to_owned(), cells(learned)));
        let others = self.policies.iter_mut().filter(|(name, _)| **name != baseline);
        for cell in others.flat_map(|(_, cells)| cells) {
            cell.p99_gain = gain_over(&theirs, cell);
        }
        let Some((rescue, learned)) = rivals else { return };
        for cell in self.policies.get_mut(&rescue).into_iter().flatten() {
            cell.p99_gain_over_learned = gain_over(&learned, cell);
        }
    }
}

/// The reduction of p99 from the cell of `theirs` to the cell of `ours` at the same load, if both
/// measurements are sound.
fn gain_over(theirs: &[LoadPoint], ours: &LoadPoint) -> Option<Gain> {
    let sound = |cell: &&LoadPoint| cell.sound() && cell.p99_ms.is_some();
    let theirs = theirs.iter().find(|theirs| same_load(theirs.load, ours.load));
    let (ours, theirs) = Some(ours).filter(sound).zip(theirs.filter(sound))?;
    Gain::between(&ours.latencies, &theirs.latencies)
}

/// Number of blocks of consecutive requests in a run, all of the same length.
const BLOCKS: usize = 25;

/// Maximum number of bootstrap samples.
const RESAMPLES: usize = 400;

/// Approximate total number of latencies in all bootstrap samples.
const WORK: usize = 40_000_000;

/// A difference that is certainly smaller than this counts as no difference, because it would not
/// change a decision.
const SAME: f64 = 0.05;

/// The latencies of good responses in nanoseconds, each with the number of its request.
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
                (exponential(seed, 7e6, 1_000), exponential(1_000 + seed, 1e7, 1_000));
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
