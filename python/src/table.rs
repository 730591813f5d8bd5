//! Columns in the form that Arrow expects.

use curtail_report::columns::{Kind, Row, Schema, Value};
use pyo3::prelude::*;

/// The values of a column.
#[derive(IntoPyObject)]
pub(crate) enum Values {
    Bool(Vec<Option<bool>>),
    Whole(Vec<Option<i64>>),
    Number(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

/// A table, which consists of the names, kinds and values of its columns.
#[derive(IntoPyObject)]
pub(crate) struct Table(Vec<(String, &'static str)>, Vec<Values>);

impl Table {
    pub(crate) fn new(schema: &Schema, rows: &[Row]) -> Self {
        let kinds = schema.iter().map(|(_, kind)| *kind).enumerate();
        let columns = kinds.map(|(at, kind)| values(kind, rows.iter().map(|row| &row[at])));
        let columns = columns.collect();
        let schema = schema.iter().map(|(name, kind)| (name.clone(), named(*kind))).collect();
        Self(schema, columns)
    }
}

/// Returns Arrow's name for a kind.
fn named(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "bool",
        Kind::Whole => "int64",
        Kind::Number => "float64",
        Kind::Text => "string",
    }
}

fn values<'a>(kind: Kind, of: impl Iterator<Item = &'a Value>) -> Values {
    match kind {
        Kind::Bool => Values::Bool(of.map(Value::as_bool).collect()),
        Kind::Whole => Values::Whole(of.map(Value::as_whole).collect()),
        Kind::Number => Values::Number(of.map(Value::as_number).collect()),
        Kind::Text => Values::Text(of.map(|value| value.as_text().map(str::to_owned)).collect()),
    }
}
