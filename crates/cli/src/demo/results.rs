//! What the demo measured.

use std::collections::BTreeMap;

use curtail_jitter::machine::Taken;
use curtail_load::Histogram;
use serde::Serialize;

use super::gain::{Gain, Latencies};
use crate::verdict::Typed;

/// The document of `curtail demo --json`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Results {
    /// Utilization of the leaves by the queries' own service time, λ P̄ / (r c).
    pub(crate) loads: Vec<f64>,
    /// By policy, a cell per load.
    pub(crate) policies: BTreeMap<String, Vec<Cell>>,
    /// The policies in the order in which they ran and are shown.
    #[serde(skip)]
    pub(crate) order: Vec<String>,
    /// What was measured, and how.
    pub(crate) setup: Setup,
    /// Set if others disturbed some cells: to be read before any figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) busy_machine: Option<Typed<Busy>>,
    /// Stopped before the end: some cells are missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) partial: bool,
    /// Where the report is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) report: Option<String>,
}

/// How much others disturbed. The shares are means over the disturbed cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename = "busy_machine")]
pub(crate) struct Busy {
    pub(crate) disturbed: usize,
    pub(crate) cells: usize,
    #[serde(flatten)]
    pub(crate) taken: Taken,
}

/// One policy at one load. Latencies are of whole requests, from their intended send times.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    /// Utilization aimed at.
    pub(crate) load: f64,
    /// Median latency, in ms.
    pub(crate) p50_ms: Option<f64>,
    /// In ms; none with fewer than 10 samples above it, as everywhere.
    pub(crate) p99_ms: Option<f64>,
    /// In ms.
    pub(crate) p999_ms: Option<f64>,
    /// Copies that a query ran as, on average.
    pub(crate) copies_per_query: f64,
    /// Requests per second, offered and achieved.
    pub(crate) offered_rate: f64,
    pub(crate) achieved_rate: f64,
    /// Requests that were measured.
    pub(crate) requests: u64,
    /// Those without an answer.
    pub(crate) errors: u64,
    /// What others took of this machine meanwhile. None where it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<Taken>,
    /// That was so much that the cell is about the machine, not about the policy.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) disturbed: bool,
    /// It was measured twice, because it was disturbed; this is the less disturbed one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) repeated: bool,
    /// Is the measurement sound? If not, why.
    pub(crate) valid: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) invalid_because: Vec<String>,
    /// All latencies, and whether the far tail is withheld, because the load generator was late.
    #[serde(skip)]
    pub(crate) histogram: Histogram<u64>,
    #[serde(skip)]
    pub(crate) withheld: bool,
    /// Against the baseline, where both measurements are sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_gain: Option<Gain>,
    /// Of rescue against the hedge with a learned delay, in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_gain_over_learned: Option<Gain>,
    #[serde(skip)]
    pub(crate) latencies: Latencies,
}

/// What was measured, and how.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Setup {
    /// Shards, replicas of each, slots of each leaf.
    pub(crate) shards: u32,
    pub(crate) replicas: u32,
    pub(crate) slots: u32,
    /// The corpus: what it is, and how many documents.
    pub(crate) corpus: String,
    pub(crate) documents: u64,
    /// The drawn service time of a query, as on the command line, and where hiccups come from.
    pub(crate) service_time: String,
    pub(crate) hiccup: String,
    /// How drawn hiccups depend on each other, in a sentence; empty where none are drawn.
    pub(crate) strata: String,
    /// P̄ in ms.
    pub(crate) service_mean_ms: f64,
    pub(crate) seed: u64,
    /// Measured requests per cell.
    pub(crate) requests: u64,
    /// What is real and what is stretched, in a sentence.
    pub(crate) honesty: String,
    /// Command that repeats this.
    pub(crate) command: String,
    /// How long it took, in s.
    pub(crate) elapsed_s: f64,
}

/// Loads are given in fractions and copied around, never computed with.
pub(super) fn same_load(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

impl Cell {
    /// Only such measurements are compared.
    pub(crate) fn sound(&self) -> bool {
        self.valid && !self.disturbed
    }
}

impl Results {
    /// Notes how much others disturbed.
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
                    "These figures are about this machine, not about the policies: {taken}. Run the demo again \
                     while it is idle."
                ),
                false => format!(
                    "{disturbed} of {cells} cells (*) are about this machine, not about the policies: {taken}. They \
                     are compared with nothing."
                ),
            };
            Typed::new(Busy { disturbed, cells, taken }, text)
        });
    }

    /// The policies, in the order in which they are shown.
    pub(crate) fn policies(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }

    /// What the others are compared with: `psq` if it ran, or else what ran first.
    pub(crate) fn baseline(&self) -> Option<&str> {
        self.policies().find(|name| *name == "psq").or_else(|| self.policies().next())
    }

    /// Our own rescue, and the hedge with a learned delay; the first of each that ran.
    pub(crate) fn rivals(&self) -> Option<(&str, &str)> {
        let named = |prefix: &str| self.policies().find(|name| name.starts_with(prefix));
        named("rescue").zip(named("delayed:p"))
    }

    /// Compares every cell with the baseline's at its load, and those of rescue with the learned delay's.
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

/// How much lower p99 is than theirs at the same load, if both measurements are sound.
fn gain_over(theirs: &[Cell], ours: &Cell) -> Option<Gain> {
    let sound = |cell: &&Cell| cell.sound() && cell.p99_ms.is_some();
    let theirs = theirs.iter().find(|theirs| same_load(theirs.load, ours.load));
    let (ours, theirs) = Some(ours).filter(sound).zip(theirs.filter(sound))?;
    Gain::between(&ours.latencies, &theirs.latencies)
}
