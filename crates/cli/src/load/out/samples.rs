//! The table of samples, with a row for every request.

use std::io;

use curtail_columns::{Kind, Row, Schema, Writer};
use curtail_load::Sample;

use super::Format;
use super::files::{CSV, File, Folder, PARQUET};
use crate::exit::Stop;

/// The number of rows per write.
const ROWS: usize = 1 << 14;

const COLUMNS: [(&str, Kind); 11] = [
    ("index", Kind::Whole),
    ("query", Kind::Whole),
    ("intended_ns", Kind::Whole),
    ("taken_ns", Kind::Whole),
    ("sent_ns", Kind::Whole),
    ("done_ns", Kind::Whole),
    ("kernel_sent_ns", Kind::Whole),
    ("kernel_received_ns", Kind::Whole),
    ("status", Kind::Text),
    ("good", Kind::Bool),
    ("body_bytes", Kind::Whole),
];

/// The table of samples. After an error it ignores further rows and reports the error at the end.
pub(crate) struct Table {
    pub(super) name: &'static str,
    rows: Vec<Row>,
    to: Writer<File>,
    error: Option<io::Error>,
}

impl Table {
    pub(super) fn begin(folder: &mut Folder, format: Format) -> Result<Self, Stop> {
        let schema: Schema = COLUMNS.map(|(name, kind)| (name.to_owned(), kind)).into();
        let name = if format == Format::Parquet { PARQUET } else { CSV };
        let file = folder.begin(name)?;
        let to = match format {
            #[cfg(feature = "parquet")]
            Format::Parquet => Writer::parquet(file, &schema),
            _ => Writer::csv(file, &schema),
        };
        let to = to.map_err(|error| folder.refused(name, &error))?;
        Ok(Self { name, rows: Vec::new(), to, error: None })
    }

    /// Adds a row.
    pub(crate) fn see(&mut self, sample: &Sample) {
        if self.error.is_some() {
            return;
        }
        self.rows.push(vec![
            sample.index.into(),
            (sample.query as u64).into(),
            sample.intended_ns.into(),
            sample.taken_ns.into(),
            sample.sent_ns.into(),
            sample.done_ns.into(),
            sample.kernel_sent_ns.into(),
            sample.kernel_received_ns.into(),
            sample.ending().into(),
            sample.good.into(),
            sample.body_bytes.into(),
        ]);
        if self.rows.len() == ROWS {
            self.error = self.to.write(&self.rows).err();
            self.rows.clear();
        }
    }

    /// Writes the remaining rows.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.to.write(&self.rows)?;
        self.to.finish().map(drop)
    }
}
