//! Columns on their way to Arrow.

use curtail_columns::{Column, Kind, Piece, Schema};
use pyo3::prelude::*;

/// The values of a column.
#[derive(IntoPyObject)]
pub(crate) enum Values {
    Bool(Vec<Option<bool>>),
    Whole(Vec<Option<i64>>),
    Number(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

/// A table: the names and kinds of its columns, and their values.
#[derive(IntoPyObject)]
pub(crate) struct Table(Vec<(String, &'static str)>, Vec<Values>);

impl Table {
    pub(crate) fn new(schema: &Schema, piece: &Piece) -> Self {
        let schema = schema.iter().map(|(name, kind)| (name.clone(), named(*kind))).collect();
        Self(schema, piece.columns().iter().map(values).collect())
    }
}

/// The name of a kind in Arrow.
fn named(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "bool",
        Kind::Whole => "int64",
        Kind::Number => "float64",
        Kind::Text => "string",
    }
}

fn values(column: &Column) -> Values {
    match column {
        Column::Bool(values) => Values::Bool(values.clone()),
        Column::Whole(values) => Values::Whole(values.clone()),
        Column::Number(values) => Values::Number(values.clone()),
        Column::Text(values) => Values::Text(values.clone()),
    }
}
