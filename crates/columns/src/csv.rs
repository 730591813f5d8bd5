//! CSV as RFC 4180 has it, but with lines that end as lines do: a name per column, then the rows.
//! Unknown values are empty.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::{Column, Piece, Schema};

/// Writes CSV.
#[derive(Debug)]
pub struct Csv<W> {
    to: W,
}

impl<W: Write> Csv<W> {
    /// Writes the names.
    ///
    /// # Errors
    /// What the writer says.
    pub fn new(mut to: W, schema: &Schema) -> io::Result<Self> {
        let names: Vec<_> = schema.iter().map(|(name, _)| quoted(name)).collect();
        writeln!(to, "{}", names.join(","))?;
        Ok(Self { to })
    }

    /// Writes rows.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write(&mut self, piece: &Piece) -> io::Result<()> {
        for row in 0..piece.rows() {
            for (place, column) in piece.columns().iter().enumerate() {
                if place > 0 {
                    self.to.write_all(b",")?;
                }
                cell(&mut self.to, column, row)?;
            }
            self.to.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Brings what was written to where it goes.
    ///
    /// # Errors
    /// What the writer says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Gives the writer back.
    ///
    /// # Errors
    /// What the writer says.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.to)
    }
}

fn cell(to: &mut impl Write, column: &Column, row: usize) -> io::Result<()> {
    match column {
        Column::Bool(values) => values[row].map_or(Ok(()), |value| write!(to, "{value}")),
        Column::Whole(values) => values[row].map_or(Ok(()), |value| write!(to, "{value}")),
        Column::Number(values) => values[row].map_or(Ok(()), |value| write!(to, "{value}")),
        Column::Text(values) => {
            values[row].as_deref().map_or(Ok(()), |text| to.write_all(quoted(text).as_bytes()))
        }
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

    #[test]
    fn values_are_quoted_where_need_be() {
        let (schema, piece) = crate::sample();
        let mut csv = Csv::new(Vec::new(), &schema).expect("memory takes all");
        csv.write(&piece).expect("memory takes all");
        let text = String::from_utf8(csv.finish().expect("memory takes all")).expect("text");
        let rows = "on,n,x,t\ntrue,-1,0.1,\"a,\"\"b\"\"\"\n,,,\n\
                    false,9223372036854775807,0.000000001,\"Æ\n\"\n";
        assert_eq!(text, rows);
    }
}
