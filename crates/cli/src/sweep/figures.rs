//! The percentile that plots show, of every point and policy.

use curtail_sim::name;
use serde_json::Value as Json;

/// Figures to be plotted.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) percentile: f64,
    /// What latencies are in: `ms`, or `1`.
    pub(super) unit: String,
    /// By point, then by policy. None where it is not known or the policy is unstable.
    pub(super) values: Vec<Option<f64>>,
}

impl Figures {
    /// None yet. What is shown is p99, or else the highest percentile.
    pub(super) fn new(percentiles: &[f64]) -> Self {
        let highest = percentiles.iter().copied().fold(0.0, f64::max);
        let percentile = if percentiles.contains(&99.0) { 99.0 } else { highest };
        Self { percentile, unit: String::new(), values: Vec::new() }
    }

    /// Those of the outcomes that come next.
    pub(super) fn read(&mut self, outcomes: &[Json]) {
        let p = name(self.percentile);
        for outcome in outcomes {
            outcome["unit"].as_str().unwrap_or_default().clone_into(&mut self.unit);
            self.values.push(outcome["request"][&p].as_f64());
        }
    }
}
