//! The results as a table: a row per point and policy, in the order of the grid.

use std::collections::BTreeSet;
use std::io;

use curtail_columns::{Column, Csv, Kind, Piece, Schema};
use curtail_sim::name;
use curtail_sim::sweep::{Axis, Value};
use serde_json::Value as Json;

use super::plan::Plan;
use super::store::Store;
use crate::exit::Stop;

/// Points per piece of the table.
const PIECE: usize = 4096;

/// Figures with a mean and percentiles.
const FIGURES: [&str; 5] =
    ["request", "ci95", "query", "versus_first.difference", "versus_first.ci95"];

/// The percentile that plots show, of every point and policy.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) percentile: f64,
    /// What latencies are in: `ms`, or `1`.
    pub(super) unit: String,
    /// By point, then by policy. None where it is not known or the policy is unstable.
    pub(super) values: Vec<Option<f64>>,
}

/// The columns: of the grid, and of outcomes. Their names say where in an outcome they are.
fn schema(plan: &Plan<'_>) -> Schema {
    let mut schema: Schema = vec![("point".to_owned(), Kind::Whole)];
    schema.extend(plan.grid.axes().iter().map(|axis| (axis.key().to_owned(), kind(axis))));
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
        for &p in plan.percentiles {
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

fn kind(axis: &Axis) -> Kind {
    let values = axis.values();
    if values.iter().all(|value| matches!(value, Value::Whole(_))) {
        Kind::Whole
    } else if axis.numbers().is_some() {
        Kind::Number
    } else {
        Kind::Text
    }
}

/// No key may have the name of another column.
pub(super) fn check_names(plan: &Plan<'_>) -> Result<(), Stop> {
    let mut names = BTreeSet::new();
    match schema(plan).into_iter().find(|(name, _)| !names.insert(name.clone())) {
        Some((name, _)) => Err(Stop::BadInput(format!(
            "grid {name}: the results have a column of this name; rename the key"
        ))),
        None => Ok(()),
    }
}

/// Writes the results, all of which are there.
pub(super) fn write(plan: &Plan<'_>, store: &Store) -> Result<Figures, Stop> {
    let schema = schema(plan);
    let percentile = plotted(plan.percentiles);
    let mut figures = Figures { percentile, unit: String::new(), values: Vec::new() };
    let p = name(percentile);
    store.replace("results.csv", |file| {
        let mut csv = Csv::new(file, &schema)?;
        pieces(plan, store, &schema, |piece, outcomes| {
            for outcome in outcomes {
                outcome["unit"].as_str().unwrap_or_default().clone_into(&mut figures.unit);
                figures.values.push(outcome["request"][&p].as_f64());
            }
            csv.write(piece)
        })?;
        csv.finish().map(drop)
    })?;
    #[cfg(feature = "parquet")]
    store.replace("results.parquet", |file| {
        let mut parquet = curtail_columns::Parquet::new(file, &schema)?;
        pieces(plan, store, &schema, |piece, _| parquet.write(piece))?;
        parquet.finish().map(drop)
    })?;
    Ok(figures)
}

/// The percentile that plots show: p99, or else the highest.
fn plotted(percentiles: &[f64]) -> f64 {
    let highest = percentiles.iter().copied().fold(0.0, f64::max);
    if percentiles.contains(&99.0) { 99.0 } else { highest }
}

/// Reads the results in order, and hands them over piece by piece.
fn pieces(
    plan: &Plan<'_>,
    store: &Store,
    schema: &Schema,
    mut take: impl FnMut(&Piece, &[Json]) -> io::Result<()>,
) -> io::Result<()> {
    let axes = plan.grid.axes().len();
    let pointer = |(name, _): &(String, Kind)| format!("/{}", name.replace('.', "/"));
    let pointers: Vec<String> = schema[1 + axes..].iter().map(pointer).collect();
    let points: Vec<usize> = (0..plan.grid.points()).collect();
    for some in points.chunks(PIECE) {
        let mut piece = Piece::new(schema);
        let mut all = Vec::with_capacity(some.len() * plan.policies.len());
        for &point in some {
            let mut line: Json = serde_json::from_str(&store.line(point)?)?;
            let Json::Array(outcomes) = line["outcomes"].take() else { continue };
            let values: Vec<Json> = plan.grid.values(point).map(|(_, value)| json(value)).collect();
            for outcome in outcomes {
                let found = pointers.iter().map(|pointer| outcome.pointer(pointer));
                let found = found.map(|value| value.cloned().unwrap_or_default());
                let row = std::iter::once(Json::from(point)).chain(values.iter().cloned());
                for (column, value) in piece.columns_mut().iter_mut().zip(row.chain(found)) {
                    push(column, &value);
                }
                all.push(outcome);
            }
        }
        take(&piece, &all)?;
    }
    Ok(())
}

fn json(value: &Value) -> Json {
    match value {
        Value::Whole(whole) => Json::from(*whole),
        Value::Number(number) => Json::from(*number),
        Value::Text(text) => Json::from(&text[..]),
    }
}

fn push(column: &mut Column, value: &Json) {
    match column {
        Column::Bool(values) => values.push(value.as_bool()),
        Column::Whole(values) => values.push(value.as_i64()),
        Column::Number(values) => values.push(value.as_f64()),
        // A number among texts is a text as well.
        Column::Text(values) => values.push(match value {
            Json::Null => None,
            Json::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }),
    }
}
