//! Writes the results as a table with one row per point and policy, in the order of the grid.

use std::io;

use curtail_report::columns::{Kind, Row, Schema, Value as Cell, Writer};
use serde_json::Value as Json;

use super::columns::{MORE, outcome_schema, pointers};
use super::error::StoreError;
use super::lines::Lines;
use super::plan::Plan;
use super::store::Store;
use crate::outcome::Outcome;

const PIECE: usize = 4096;

/// The table of a single experiment: a row per policy, with all fields of its JSON.
#[derive(Clone, Debug)]
pub struct OutcomeTable {
    /// The columns.
    pub schema: Schema,
    /// The rows.
    pub rows: Vec<Row>,
}

/// Returns the table of a single experiment.
pub fn of_outcomes(outcomes: &[Outcome], percentiles: &[f64]) -> OutcomeTable {
    let mut schema = outcome_schema(percentiles);
    schema.extend(MORE.map(|(name, kind)| (name.to_owned(), kind)));
    let pointers = pointers(&schema);
    let row_of = |outcome| {
        let json = serde_json::to_value(outcome).expect("names, numbers and texts");
        row(&schema, found(&json, &pointers))
    };
    let rows = outcomes.iter().map(row_of).collect();
    OutcomeTable { schema, rows }
}

impl Store {
    /// Writes all results, which must be complete, as tables. Calls `seen` with the outcomes of
    /// each batch.
    pub fn write_tables(
        &self,
        plan: &Plan,
        mut seen: impl FnMut(&[Json]),
    ) -> Result<(), StoreError> {
        let schema = plan.schema();
        self.replace("results.csv", |file| {
            let mut csv = Writer::csv(file, &schema)?;
            pieces(plan, &self.lines, |rows, outcomes| {
                seen(outcomes);
                csv.write(rows)
            })?;
            csv.finish().map(drop)
        })?;
        #[cfg(feature = "parquet")]
        self.replace("results.parquet", |file| {
            let mut parquet = Writer::parquet(file, &schema)?;
            pieces(plan, &self.lines, |rows, _| parquet.write(rows))?;
            parquet.finish().map(drop)
        })?;
        Ok(())
    }
}

/// Reads all results, which must be complete, in the order of the grid. Passes them to `take` in
/// batches, both as rows and as JSON.
pub fn pieces(
    plan: &Plan,
    lines: &Lines,
    mut take: impl FnMut(&[Row], &[Json]) -> io::Result<()>,
) -> io::Result<()> {
    let schema = plan.schema();
    let pointers = pointers(&schema[1 + plan.grid().axes().len()..]);
    let points: Vec<usize> = (0..plan.grid().points()).collect();
    for some in points.chunks(PIECE) {
        let mut rows = Vec::with_capacity(some.len() * plan.policies().len());
        let mut all = Vec::with_capacity(some.len() * plan.policies().len());
        for &point in some {
            let mut line: Json = serde_json::from_str(&lines.line(point)?)?;
            let Json::Array(outcomes) = line["outcomes"].take() else { continue };
            let values = plan.grid().values(point).map(|(_, value)| serde_json::to_value(value));
            let values = values.collect::<Result<Vec<Json>, _>>()?;
            for outcome in outcomes {
                let of_point = std::iter::once(Json::from(point)).chain(values.iter().cloned());
                rows.push(row(&schema, of_point.chain(found(&outcome, &pointers))));
                all.push(outcome);
            }
        }
        take(&rows, &all)?;
    }
    Ok(())
}

fn found(outcome: &Json, pointers: &[String]) -> impl Iterator<Item = Json> {
    pointers.iter().map(|pointer| outcome.pointer(pointer).cloned().unwrap_or_default())
}

fn row(schema: &Schema, values: impl Iterator<Item = Json>) -> Row {
    schema.iter().zip(values).map(|((_, kind), value)| cell(*kind, value)).collect()
}

fn cell(kind: Kind, value: Json) -> Cell {
    match (kind, value) {
        (Kind::Bool, value) => value.as_bool().into(),
        (Kind::Whole, value) => value.as_i64().into(),
        (Kind::Number, value) => value.as_f64().into(),
        (Kind::Text, Json::Null) => Cell::Unknown,
        (Kind::Text, Json::String(text)) => text.into(),
        // A number in a text column is also written as text.
        (Kind::Text, other) => other.to_string().into(),
    }
}
