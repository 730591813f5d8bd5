//! The results as a table: a row per point and policy, in the order of the grid.

use std::collections::BTreeSet;
use std::io;

use curtail_columns::{Column, Csv, Kind, Piece, Schema};
use serde_json::Value as Json;

use super::axis::{Axis, Value};
use super::error::{Error, StoreError};
use super::lines::Lines;
use super::plan::Plan;
use super::store::Store;
use crate::outcome::{Outcome, name};

/// Points per piece of the table.
const PIECE: usize = 4096;

/// Figures with a mean and percentiles.
const FIGURES: [&str; 5] =
    ["request", "ci95", "query", "versus_first.difference", "versus_first.ci95"];

/// What else an outcome says. Not in tables of sweeps, whose bytes tell no times.
const MORE: [(&str, Kind); 10] = [
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

/// The columns of outcomes. Their names say where in an outcome they are.
fn outcome_schema(percentiles: &[f64]) -> Schema {
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

/// The columns of a sweep: of the grid, and of outcomes.
pub fn schema(plan: &Plan) -> Schema {
    let mut schema: Schema = vec![("point".to_owned(), Kind::Whole)];
    schema.extend(plan.grid().axes().iter().map(|axis| (axis.key().to_owned(), kind(axis))));
    schema.extend(outcome_schema(plan.percentiles()));
    schema
}

fn kind(axis: &Axis) -> Kind {
    let values = axis.values();
    if values.iter().all(|value| matches!(value, Value::Whole(_))) {
        Kind::Whole
    } else if values.iter().any(|value| matches!(value, Value::Large(_))) {
        // No column of numbers has room for all of their digits.
        Kind::Text
    } else if axis.numbers().is_some() {
        Kind::Number
    } else {
        Kind::Text
    }
}

/// No key may have the name of another column.
pub(super) fn check_names(plan: &Plan) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    match schema(plan).into_iter().find(|(name, _)| !names.insert(name.clone())) {
        Some((key, _)) => Err(Error::Column { key }),
        None => Ok(()),
    }
}

/// Outcomes are to be what their columns hold, or missing: a table would leave the cell empty.
pub(super) fn check_kinds(plan: &Plan, outcomes: &[Json]) -> Result<(), String> {
    let schema = outcome_schema(plan.percentiles());
    for (pointer, (name, kind)) in pointers(&schema).iter().zip(&schema) {
        let (fits, wanted): (fn(&Json) -> bool, _) = match kind {
            Kind::Bool => (Json::is_boolean, "true or false"),
            Kind::Whole => (Json::is_i64, "a whole number"),
            Kind::Number => (Json::is_number, "a number"),
            Kind::Text => (Json::is_string, "a text"),
        };
        let values = outcomes.iter().filter_map(|outcome| outcome.pointer(pointer));
        if let Some(value) = values.filter(|value| !value.is_null()).find(|value| !fits(value)) {
            return Err(format!("{name} is {value}; it should be {wanted}"));
        }
    }
    Ok(())
}

/// A single experiment as a table: a row per policy, and all that its JSON says.
pub fn of_outcomes(outcomes: &[Outcome], percentiles: &[f64]) -> (Schema, Piece) {
    let mut schema = outcome_schema(percentiles);
    schema.extend(MORE.map(|(name, kind)| (name.to_owned(), kind)));
    let pointers = pointers(&schema);
    let mut piece = Piece::new(&schema);
    for outcome in outcomes {
        let json = serde_json::to_value(outcome).expect("names, numbers and texts");
        push_row(&mut piece, found(&json, &pointers));
    }
    (schema, piece)
}

impl Store {
    /// Writes the results, all of which are there, as tables, and shows the outcomes of each point
    /// meanwhile.
    pub fn write_tables(
        &self,
        plan: &Plan,
        mut seen: impl FnMut(&[Json]),
    ) -> Result<(), StoreError> {
        let schema = schema(plan);
        self.replace("results.csv", |file| {
            let mut csv = Csv::new(file, &schema)?;
            pieces(plan, &self.lines, |piece, outcomes| {
                seen(outcomes);
                csv.write(piece)
            })?;
            csv.finish().map(drop)
        })?;
        #[cfg(feature = "parquet")]
        self.replace("results.parquet", |file| {
            let mut parquet = curtail_columns::Parquet::new(file, &schema)?;
            pieces(plan, &self.lines, |piece, _| parquet.write(piece))?;
            parquet.finish().map(drop)
        })?;
        Ok(())
    }
}

/// Reads results, all of which are there, in the order of the grid, and hands them over piece by
/// piece: as rows, and as JSON.
pub fn pieces(
    plan: &Plan,
    lines: &Lines,
    mut take: impl FnMut(&Piece, &[Json]) -> io::Result<()>,
) -> io::Result<()> {
    let schema = schema(plan);
    let pointers = pointers(&schema[1 + plan.grid().axes().len()..]);
    let points: Vec<usize> = (0..plan.grid().points()).collect();
    for some in points.chunks(PIECE) {
        let mut piece = Piece::new(&schema);
        let mut all = Vec::with_capacity(some.len() * plan.policies().len());
        for &point in some {
            let mut line: Json = serde_json::from_str(&lines.line(point)?)?;
            let Json::Array(outcomes) = line["outcomes"].take() else { continue };
            let values: Vec<Json> =
                plan.grid().values(point).map(|(_, value)| json(value)).collect();
            for outcome in outcomes {
                let row = std::iter::once(Json::from(point)).chain(values.iter().cloned());
                push_row(&mut piece, row.chain(found(&outcome, &pointers)));
                all.push(outcome);
            }
        }
        take(&piece, &all)?;
    }
    Ok(())
}

/// Where in an outcome the values of columns are.
fn pointers(schema: &[(String, Kind)]) -> Vec<String> {
    schema.iter().map(|(name, _)| format!("/{}", name.replace('.', "/"))).collect()
}

fn found(outcome: &Json, pointers: &[String]) -> impl Iterator<Item = Json> {
    pointers.iter().map(|pointer| outcome.pointer(pointer).cloned().unwrap_or_default())
}

fn json(value: &Value) -> Json {
    match value {
        Value::Whole(whole) => Json::from(*whole),
        Value::Large(large) => Json::from(*large),
        Value::Number(number) => Json::from(*number),
        Value::Text(text) => Json::from(&text[..]),
    }
}

fn push_row(piece: &mut Piece, row: impl Iterator<Item = Json>) {
    for (column, value) in piece.columns_mut().iter_mut().zip(row) {
        push(column, &value);
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
