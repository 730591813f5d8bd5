//! Writes result tables with named, typed columns. Rows are written in batches, so the whole table
//! does not have to fit in memory.
//!
//! A [`Schema`] names the columns, and a [`Writer`] takes rows until it is finished. The output
//! format is CSV or, if the `parquet` feature is enabled, Parquet. The bytes of a CSV file depend
//! only on the rows, not on how the rows are batched. In a Parquet file, each batch is a row group.

#[cfg(feature = "parquet")]
mod parquet;

use std::borrow::Cow;
use std::io::{self, Write};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Whole,
    Number,
    Text,
}

/// The names and types of the columns.
pub type Schema = Vec<(String, Kind)>;

/// A value of the column's type, or `Unknown`.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Unknown,
    Bool(bool),
    Whole(i64),
    Number(f64),
    Text(String),
}

/// One value per column.
pub type Row = Vec<Value>;

impl Value {
    /// Returns the value if it is a boolean.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// Returns the value if it is a whole number.
    #[must_use]
    pub fn as_whole(&self) -> Option<i64> {
        if let Self::Whole(value) = self { Some(*value) } else { None }
    }

    /// Returns the value if it is a number.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        if let Self::Number(value) = self { Some(*value) } else { None }
    }

    /// Returns the value if it is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Whole(value)
    }
}

/// Values above `i64::MAX` become `Unknown`.
impl From<u64> for Value {
    fn from(value: u64) -> Self {
        i64::try_from(value).ok().into()
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<V: Into<Value>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Self {
        value.map_or(Self::Unknown, V::into)
    }
}

/// Writes a table.
#[allow(missing_debug_implementations, reason = "the Parquet writer does not implement `Debug`")]
pub struct Writer<W: Write + Send>(To<W>);

enum To<W: Write + Send> {
    Csv(W),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Parquet<W>>),
}

impl<W: Write + Send> Writer<W> {
    /// Begins a table in CSV. The output follows RFC 4180, except that lines end with LF instead of
    /// CRLF. The first line contains the column names. Unknown values are written as empty fields.
    ///
    /// # Errors
    /// Returns the writer's error.
    pub fn csv(mut to: W, schema: &Schema) -> io::Result<Self> {
        to.write_all(csv_names(schema).as_bytes())?;
        Ok(Self(To::Csv(to)))
    }

    /// Begins a table in Parquet.
    ///
    /// # Errors
    /// Returns the writer's error.
    #[cfg(feature = "parquet")]
    pub fn parquet(to: W, schema: &Schema) -> io::Result<Self> {
        parquet::Parquet::new(to, schema).map(|to| Self(To::Parquet(Box::new(to))))
    }

    /// Writes rows.
    ///
    /// # Errors
    /// Returns the writer's error.
    pub fn write(&mut self, rows: &[Row]) -> io::Result<()> {
        match &mut self.0 {
            To::Csv(to) => to.write_all(csv_lines(rows).as_bytes()),
            #[cfg(feature = "parquet")]
            To::Parquet(to) => to.write(rows),
        }
    }

    /// Finishes the table and returns the writer.
    ///
    /// # Errors
    /// Returns the writer's error.
    pub fn finish(self) -> io::Result<W> {
        match self.0 {
            To::Csv(mut to) => to.flush().map(|()| to),
            #[cfg(feature = "parquet")]
            To::Parquet(to) => to.finish(),
        }
    }
}

fn csv_names(schema: &Schema) -> String {
    schema.iter().map(|(name, _)| quoted(name)).collect::<Vec<_>>().join(",") + "\n"
}

fn csv_lines(rows: &[Row]) -> String {
    rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(",") + "\n").collect()
}

fn cell(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Unknown => "".into(),
        Value::Bool(value) => value.to_string().into(),
        Value::Whole(value) => value.to_string().into(),
        Value::Number(value) => value.to_string().into(),
        Value::Text(text) => quoted(text),
    }
}

fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        return Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")));
    }
    Cow::Borrowed(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn sample() -> (Schema, Vec<Row>) {
        let schema =
            [("on", Kind::Bool), ("n", Kind::Whole), ("x", Kind::Number), ("t", Kind::Text)];
        let schema: Schema =
            schema.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
        let row = |on: bool, n: i64, x: f64, t: &str| {
            vec![on.into(), n.into(), x.into(), t.to_owned().into()]
        };
        let rows = [
            row(true, -1, 0.1, "a,\"b\""),
            vec![Value::Unknown; 4],
            row(false, i64::MAX, 1e-9, "Æ\n"),
        ];
        (schema, rows.into())
    }

    #[test]
    fn values_are_quoted_if_needed() {
        let (schema, rows) = sample();
        let mut csv = Writer::csv(Vec::new(), &schema).expect("writing to memory succeeds");
        csv.write(&rows).expect("writing to memory succeeds");
        let text =
            String::from_utf8(csv.finish().expect("writing to memory succeeds")).expect("text");
        let rows = "on,n,x,t\ntrue,-1,0.1,\"a,\"\"b\"\"\"\n,,,\n\
                    false,9223372036854775807,0.000000001,\"Æ\n\"\n";
        assert_eq!(text, rows);
    }
}
