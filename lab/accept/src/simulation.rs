//! Runs of `curtail sim` and `curtail sweep`, and figures of the policies that they compare.

use anyhow::Result;
use serde_json::{Value, json};

use crate::figures::{self, at, over, policy};
use crate::lab::Lab;

/// The outcomes of the policies of `curtail sim`. The first policy is the base of all comparisons.
/// A policy without a steady state has no latencies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcomes(pub(crate) Value);

impl Outcomes {
    /// Runs `curtail sim` with policies that are separated by spaces.
    pub(crate) fn sim(lab: &Lab<'_>, flags: &str, policies: &str) -> Result<Self> {
        let policies = policies.replace(' ', " --policy ");
        Ok(Self(lab.run(format!("@curtail sim --json {flags} --policy {policies}")).json()?))
    }

    /// Returns a figure of the policy at this position.
    pub(crate) fn of(&self, policy: usize, pointer: &str) -> f64 {
        at(&self.0[policy], pointer)
    }

    /// Divides figures of two policies.
    pub(crate) fn ratio(&self, policy: usize, base: usize, pointer: &str) -> f64 {
        self.of(policy, pointer) / self.of(base, pointer)
    }

    pub(crate) fn is_stable(&self, policy: usize) -> bool {
        self.0[policy]["stable"] == true
    }

    /// Returns by how much a latency of a policy is above that of the first one.
    pub(crate) fn excess(&self, policy: usize, of: &str, intervals: f64) -> f64 {
        excess(&self.0[0], &self.0[policy], of, intervals)
    }
}

/// Returns by how much a latency of an outcome is above that of the first policy, as a share of the
/// latter. Subtracts a number of 95 % confidence intervals of the difference, or adds them if the
/// number is negative.
fn excess(first: &Value, outcome: &Value, of: &str, intervals: f64) -> f64 {
    let versus = |what: &str| at(outcome, &format!("/versus_first/{what}/{of}"));
    let chance = if intervals == 0.0 { 0.0 } else { intervals * versus("ci95") };
    (versus("difference") - chance) / at(first, &format!("/request/{of}"))
}

/// Points of a grid, each with the outcomes of all policies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points(pub(crate) Vec<Value>);

impl Points {
    /// Runs `curtail sim` at each utilization.
    pub(crate) fn sim(
        lab: &Lab<'_>,
        flags: &str,
        loads: impl IntoIterator<Item = f64>,
        policies: &str,
    ) -> Result<Self> {
        let point = |load: f64| -> Result<Value> {
            let Outcomes(all) =
                Outcomes::sim(lab, &format!("{flags} --utilization {load}"), policies)?;
            Ok(json!({ "grid": { "utilization": load }, "outcomes": all }))
        };
        Ok(Self(loads.into_iter().map(point).collect::<Result<_>>()?))
    }

    /// Returns the points for which a condition holds.
    pub(crate) fn only(&self, holds: impl Fn(&Value) -> bool) -> Self {
        Self(self.0.iter().filter(|point| holds(point)).cloned().collect())
    }

    /// Returns the points at which an axis of the grid is in a range, ends included.
    pub(crate) fn within(&self, axis: &str, from: f64, to: f64) -> Self {
        let pointer = format!("/grid/{axis}");
        self.only(|point| (from..=to).contains(&at(point, &pointer)))
    }

    /// Returns the points at which an axis has a value.
    pub(crate) fn at(&self, axis: &str, value: f64) -> Self {
        self.within(axis, value - 1e-9, value + 1e-9)
    }

    /// Returns a figure of a policy at each point.
    pub(crate) fn of(&self, name: &str, pointer: &str) -> Vec<f64> {
        figures::each(self.0.iter().map(|point| policy(point, name)), pointer)
    }

    /// Returns by how much a latency of a policy is above that of the first one at each point, minus
    /// the 95 % confidence interval of the difference.
    pub(crate) fn excess(&self, name: &str, of: &str) -> Vec<f64> {
        let excess = |point: &Value| excess(&point["outcomes"][0], policy(point, name), of, 1.0);
        self.0.iter().map(excess).collect()
    }

    /// Returns the 99th percentile of requests with a policy at each point.
    pub(crate) fn p99(&self, name: &str) -> Vec<f64> {
        self.of(name, "/request/p99")
    }

    /// Divides the 99th percentiles of two policies.
    pub(crate) fn ratio(&self, name: &str, base: &str) -> Vec<f64> {
        over(&self.p99(name), &self.p99(base))
    }

    /// Subtracts the 99th percentiles of two policies.
    pub(crate) fn gap(&self, name: &str, base: &str) -> Vec<f64> {
        figures::with(&self.p99(name), &self.p99(base), |p99, base| p99 - base)
    }

    /// Returns the utilization from which the first policy's 99th percentile is above the second's.
    pub(crate) fn crossing(&self, name: &str, base: &str) -> f64 {
        let loads = figures::each(&self.0, "/grid/utilization");
        figures::crossing(&loads, &self.ratio(name, base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(load: f64, p99: [f64; 2]) -> Value {
        let versus = json!({"difference": {"p99": p99[1] - p99[0]}, "ci95": {"p99": 0.5}});
        json!({"grid": {"utilization": load}, "outcomes": [
            {"policy": "psq", "stable": true, "request": {"p99": p99[0]}},
            {"policy": "naive", "request": {"p99": p99[1]}, "versus_first": versus},
        ]})
    }

    #[test]
    fn points_are_selected_and_compared() {
        let points = [point(0.1, [4.0, 2.0]), point(0.2, [4.0, 6.0]), point(0.3, [4.0, 8.0])];
        let points = Points(points.into());
        assert_eq!(points.ratio("naive", "psq"), [0.5, 1.5, 2.0]);
        assert_eq!(points.gap("naive", "psq"), [-2.0, 2.0, 4.0]);
        assert!((points.crossing("naive", "psq") - 0.15).abs() < 1e-12);
        assert_eq!(points.at("utilization", 0.2).p99("naive"), [6.0]);
        assert_eq!(points.within("utilization", 0.2, 0.3).p99("naive"), [6.0, 8.0]);
        assert_eq!(points.excess("naive", "p99"), [-0.625, 0.375, 0.875]);
        let outcomes = Outcomes(points.0[2]["outcomes"].clone());
        assert_eq!((outcomes.excess(1, "p99", 2.0), outcomes.excess(1, "p99", -2.0)), (0.75, 1.25));
        assert_eq!((outcomes.ratio(1, 0, "/request/p99"), outcomes.is_stable(0)), (2.0, true));
    }
}
