//! Simulates the same graph with several seeds, and computes confidence intervals of the means.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Control, Graph, GraphOutcome, run};
use crate::parallel::{self, Plan};
use curtail_stats::student;

/// The results of a control over all replications.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Replicated {
    /// Means over the replications. A figure is null if any replication lacks it.
    #[serde(flatten)]
    pub mean: GraphOutcome,
    /// Half the width of the 95 % confidence intervals, in the same structure. Null if there is
    /// only one replication.
    pub ci95: Value,
    /// The number of replications.
    pub replications: u32,
}

/// Runs every control with the seeds `seed`, `seed + 1` …, on common random numbers. Returns `None`
/// if it was stopped.
#[must_use]
pub fn replicate(
    graph: &Graph,
    controls: &[Control],
    seed: u64,
    replications: u32,
    plan: &Plan<'_>,
) -> Option<Vec<Replicated>> {
    let jobs = controls.len() * replications as usize;
    let outcomes = parallel::each(jobs, plan.threads, |job| {
        let replication = job as u64 % u64::from(replications);
        let control = controls[job / replications as usize];
        serde_json::to_value(run(graph, control, seed + replication, plan)?).ok()
    })?;
    let of = |runs: &[Value]| {
        let runs: Vec<&Value> = runs.iter().collect();
        let mean = combine(&runs, &|numbers| student::mean(numbers));
        let ci95 = combine(&runs, &|numbers| student::half_width(numbers));
        Some(Replicated { mean: serde_json::from_value(mean).ok()?, ci95, replications })
    };
    outcomes.chunks(replications as usize).map(of).collect()
}

/// Combines values of the same structure, number by number. Anything that is not a number is taken
/// from the first value. If any of the values is null, the result is null.
fn combine(values: &[&Value], how: &impl Fn(&[f64]) -> Option<f64>) -> Value {
    let Some(first) = values.first() else { return Value::Null };
    match first {
        _ if values.iter().any(|value| value.is_null()) => Value::Null,
        Value::Number(_) => {
            let numbers: Vec<f64> = values.iter().filter_map(|value| value.as_f64()).collect();
            how(&numbers).map_or(Value::Null, Value::from)
        }
        Value::Array(items) => {
            let at = |index| values.iter().filter_map(|value| value.get(index)).collect::<Vec<_>>();
            (0..items.len()).map(|index| combine(&at(index), how)).collect()
        }
        Value::Object(fields) => {
            let at = |name: &String| {
                values.iter().filter_map(|value| value.get(name)).collect::<Vec<_>>()
            };
            fields.keys().map(|name| (name.clone(), combine(&at(name), how))).collect()
        }
        other => (*other).clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_averaged_where_all_have_them() {
        let runs =
            [json!({"a": [1, 2], "b": null, "c": "x"}), json!({"a": [3, 2], "b": 1, "c": "x"})];
        let runs: Vec<&Value> = runs.iter().collect();
        let mean = combine(&runs, &|numbers| student::mean(numbers));
        assert_eq!(mean, json!({"a": [2.0, 2.0], "b": null, "c": "x"}));
        let width = combine(&runs, &|numbers| student::half_width(numbers));
        assert!(width["a"][0].as_f64().is_some_and(|width| width > 12.0) && width["a"][1] == 0.0);
        assert_eq!(
            combine(&runs[..1], &|numbers| student::half_width(numbers))["a"][0],
            Value::Null
        );
    }
}
