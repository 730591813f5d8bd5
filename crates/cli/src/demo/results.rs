//! What the demo measured.

use std::collections::BTreeMap;

use serde::Serialize;

use super::findings::View;
use super::gain::{Gain, Latencies};

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
    /// Stopped before the end: some cells are missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) partial: bool,
    /// Where the report is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) report: Option<String>,
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
    /// Is the measurement sound? If not, why.
    pub(crate) valid: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) invalid_because: Vec<String>,
    /// The complementary distribution: (latency in ms, share of requests above it), for plots.
    #[serde(skip)]
    pub(crate) ccdf: Vec<(f64, f64)>,
    /// Against the baseline, where both measurements are sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_gain: Option<Gain>,
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

impl Results {
    /// Compares every cell with the baseline's at its load.
    pub(crate) fn compare(&mut self) {
        let view = View::of(self);
        let gain = |name: &str, cell: &Cell| {
            let baseline = view.baseline.filter(|baseline| *baseline != name)?;
            let theirs = view.cell(baseline, cell.load)?;
            let sound = [cell, theirs].iter().all(|cell| cell.valid && cell.p99_ms.is_some());
            sound.then(|| Gain::between(&cell.latencies, &theirs.latencies))?
        };
        let cells = self.policies.iter();
        let gains: Vec<Option<Gain>> = cells
            .flat_map(|(name, cells)| cells.iter().map(move |cell| gain(name, cell)))
            .collect();
        for (cell, gain) in self.policies.values_mut().flatten().zip(gains) {
            cell.p99_gain = gain;
        }
    }
}
