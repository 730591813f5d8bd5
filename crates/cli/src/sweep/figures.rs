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
    /// Likewise, whether there is a steady state.
    pub(super) stable: Vec<bool>,
}

impl Figures {
    /// None yet. What is shown is p99, or else the highest percentile.
    pub(super) fn new(percentiles: &[f64]) -> Self {
        let highest = percentiles.iter().copied().fold(0.0, f64::max);
        let percentile = if percentiles.contains(&99.0) { 99.0 } else { highest };
        Self { percentile, unit: String::new(), values: Vec::new(), stable: Vec::new() }
    }

    /// Why there is nothing to show of some of them, if there is nothing.
    pub(super) fn nothing(&self, of: impl Iterator<Item = usize> + Clone) -> Option<String> {
        if of.clone().any(|place| self.values[place].is_some()) {
            return None;
        }
        let mut of = of;
        Some(if of.any(|place| self.stable[place]) {
            format!("p{} is not known here: too few requests", self.percentile)
        } else {
            "every policy is unstable here: queues grow without end".to_owned()
        })
    }

    /// Those of the outcomes that come next.
    pub(super) fn read(&mut self, outcomes: &[Json]) {
        let p = name(self.percentile);
        for outcome in outcomes {
            outcome["unit"].as_str().unwrap_or_default().clone_into(&mut self.unit);
            self.stable.push(outcome["stable"].as_bool().unwrap_or_default());
            self.values.push(outcome["request"][&p].as_f64());
        }
    }
}
