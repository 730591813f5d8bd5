//! Tables of results: columns with a name and a kind, written piece by piece, so that a table need
//! not fit into memory.
//!
//! A [`Schema`] names the columns, a [`Piece`] holds some rows, and a writer ([`Csv`], or `Parquet`
//! with the feature of that name) takes pieces until it is finished. The same rows make the same
//! bytes, however they are cut into pieces for CSV; Parquet has a group of rows per piece.
#![forbid(unsafe_code)]

mod csv;
#[cfg(feature = "parquet")]
mod parquet;

pub use csv::Csv;
#[cfg(feature = "parquet")]
pub use parquet::Parquet;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Bool,
    /// Whole numbers.
    Whole,
    /// Numbers.
    Number,
    /// Text.
    Text,
}

/// The names and kinds of the columns.
pub type Schema = Vec<(String, Kind)>;

/// Values of a column, in the order of the rows. None: unknown.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// True or false.
    Bool(Vec<Option<bool>>),
    /// Whole numbers.
    Whole(Vec<Option<i64>>),
    /// Numbers.
    Number(Vec<Option<f64>>),
    /// Text.
    Text(Vec<Option<String>>),
}

impl Column {
    /// How many values it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bool(values) => values.len(),
            Self::Whole(values) => values.len(),
            Self::Number(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    /// Has it no value?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it holds.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Bool(_) => Kind::Bool,
            Self::Whole(_) => Kind::Whole,
            Self::Number(_) => Kind::Number,
            Self::Text(_) => Kind::Text,
        }
    }
}

/// Some rows of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    columns: Vec<Column>,
}

impl Piece {
    /// No rows yet.
    #[must_use]
    pub fn new(schema: &Schema) -> Self {
        let empty = |kind: &Kind| match kind {
            Kind::Bool => Column::Bool(Vec::new()),
            Kind::Whole => Column::Whole(Vec::new()),
            Kind::Number => Column::Number(Vec::new()),
            Kind::Text => Column::Text(Vec::new()),
        };
        Self { columns: schema.iter().map(|(_, kind)| empty(kind)).collect() }
    }

    /// Its columns, as in the schema. Whoever pushes to one pushes to all.
    pub fn columns_mut(&mut self) -> &mut [Column] {
        &mut self.columns
    }

    /// Its columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How many rows it has.
    ///
    /// # Panics
    /// One of the columns is longer than another.
    #[must_use]
    pub fn rows(&self) -> usize {
        let rows = self.columns.first().map_or(0, Column::len);
        assert!(self.columns.iter().all(|column| column.len() == rows), "a row is incomplete");
        rows
    }
}

#[cfg(test)]
fn sample() -> (Schema, Piece) {
    let schema = [("on", Kind::Bool), ("n", Kind::Whole), ("x", Kind::Number), ("t", Kind::Text)];
    let schema: Schema = schema.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
    let mut piece = Piece::new(&schema);
    let columns = [
        Column::Bool(vec![Some(true), None, Some(false)]),
        Column::Whole(vec![Some(-1), None, Some(i64::MAX)]),
        Column::Number(vec![Some(0.1), None, Some(1e-9)]),
        Column::Text(vec![Some("a,\"b\"".to_owned()), None, Some("Æ\n".to_owned())]),
    ];
    piece.columns_mut().clone_from_slice(&columns);
    (schema, piece)
}
