//! The results as a table: a row per point and policy, in the order of the grid.

use std::io;

use curtail_columns::{Column, Csv, Piece, Schema};
use serde_json::Value as Json;

use super::axis::Value;
use super::columns::{MORE, outcome_schema, pointers};
use super::error::StoreError;
use super::lines::Lines;
use super::plan::Plan;
use super::store::Store;
use crate::outcome::Outcome;

const PIECE: usize = 4096;

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
        let schema = plan.schema();
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
    let schema = plan.schema();
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
