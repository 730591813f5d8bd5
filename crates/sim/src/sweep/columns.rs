//! The columns of the results: first those of the grid, then those of the outcomes.

use std::collections::BTreeSet;

use curtail_report::columns::{Kind, Schema};
use serde_json::Value as Json;

use super::axis::{Axis, Value};
use super::error::Error;
use crate::figures::name;

const FIGURES: [&str; 5] =
    ["request", "ci95", "query", "versus_first.difference", "versus_first.ci95"];

/// Further fields of an outcome. The tables of sweeps do not contain them, because the bytes of a
/// table must not depend on elapsed times.
pub(super) const MORE: [(&str, Kind); 10] = [
    ("budget", Kind::Number),
    ("versus_first.policy", Kind::Text),
    ("predictor.overall.all", Kind::Whole),
    ("predictor.overall.right", Kind::Whole),
    ("predictor.together.all", Kind::Whole),
    ("predictor.together.right", Kind::Whole),
    ("predictor.apart.all", Kind::Whole),
    ("predictor.apart.right", Kind::Whole),
    // As JSON.
    ("windows", Kind::Text),
    ("elapsed_s", Kind::Number),
];

/// Returns the columns of outcomes. The names of the columns are paths within an outcome.
pub(super) fn outcome_schema(percentiles: &[f64]) -> Schema {
    let mut schema = Schema::new();
    let mut push = |name: &str, kind: Kind| schema.push((name.to_owned(), kind));
    push("policy", Kind::Text);
    push("trained", Kind::Text);
    push("stable", Kind::Bool);
    push("unit", Kind::Text);
    for name in ["offered", "with_jitter", "busy"] {
        push(&format!("utilization.{name}"), Kind::Number);
    }
    for figures in FIGURES {
        push(&format!("{figures}.mean"), Kind::Number);
        for &p in percentiles {
            push(&format!("{figures}.{}", name(p)), Kind::Number);
        }
    }
    for name in ["copies_per_query", "hedged_fraction", "wasted_fraction"] {
        push(name, Kind::Number);
    }
    push("queue.mean_wait", Kind::Number);
    push("queue.mean_length", Kind::Number);
    push("requests_failed", Kind::Whole);
    push("queries_simulated", Kind::Whole);
    schema
}

pub(super) fn schema(axes: &[Axis], percentiles: &[f64]) -> Schema {
    let mut schema: Schema = vec![("point".to_owned(), Kind::Whole)];
    schema.extend(axes.iter().map(|axis| (axis.key().to_owned(), kind(axis))));
    schema.extend(outcome_schema(percentiles));
    schema
}

fn kind(axis: &Axis) -> Kind {
    let values = axis.values();
    if values.iter().all(|value| matches!(value, Value::Whole(_))) {
        Kind::Whole
    } else if values.iter().any(|value| matches!(value, Value::Large(_))) {
        // No numeric column can hold all digits of such a number.
        Kind::Text
    } else if axis.numbers().is_some() {
        Kind::Number
    } else {
        Kind::Text
    }
}

pub(super) fn check_names(axes: &[Axis], percentiles: &[f64]) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    match schema(axes, percentiles).into_iter().find(|(name, _)| !names.insert(name.clone())) {
        Some((key, _)) => Err(Error::Column { key }),
        None => Ok(()),
    }
}

/// Checks that each value of an outcome either has the type of its column or is missing. A table
/// would contain an empty cell instead of any other value.
pub(super) fn check_kinds(percentiles: &[f64], outcomes: &[Json]) -> Result<(), String> {
    let schema = outcome_schema(percentiles);
    for (pointer, (name, kind)) in pointers(&schema).iter().zip(&schema) {
        let (fits, wanted): (fn(&Json) -> bool, _) = match kind {
            Kind::Bool => (Json::is_boolean, "true or false"),
            Kind::Whole => (Json::is_i64, "a whole number"),
            Kind::Number => (Json::is_number, "a number"),
            Kind::Text => (Json::is_string, "a text"),
        };
        let values = outcomes.iter().filter_map(|outcome| outcome.pointer(pointer));
        if let Some(value) = values.filter(|value| !value.is_null()).find(|value| !fits(value)) {
            return Err(format!("{name} is {value}: must be {wanted}"));
        }
    }
    Ok(())
}

pub(super) fn pointers(schema: &[(String, Kind)]) -> Vec<String> {
    schema.iter().map(|(name, _)| format!("/{}", name.replace('.', "/"))).collect()
}
