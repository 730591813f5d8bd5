//! A row for every request.

use std::io::{self, BufWriter};

use curtail_columns::{Column, Csv, Kind, Piece, Schema};
use curtail_load::Sample;

use super::Format;
use super::files::{CSV, File, Folder, PARQUET};
use crate::exit::Stop;

/// So many rows are written at once.
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

/// The table of samples. After an error it takes no more, and tells it at the end.
pub(crate) struct Table {
    schema: Schema,
    rows: Piece,
    waiting: usize,
    to: To,
    error: Option<io::Error>,
}

enum To {
    Csv(Csv<BufWriter<File>>),
    #[cfg(feature = "parquet")]
    Parquet(Box<curtail_columns::Parquet<BufWriter<File>>>),
}

impl Table {
    pub(super) fn begin(folder: &mut Folder, format: Format) -> Result<Self, Stop> {
        let schema: Schema = COLUMNS.map(|(name, kind)| (name.to_owned(), kind)).into();
        let name = if format == Format::Parquet { PARQUET } else { CSV };
        let file = BufWriter::new(folder.begin(name)?);
        let to = match format {
            #[cfg(feature = "parquet")]
            Format::Parquet => curtail_columns::Parquet::new(file, &schema)
                .map(|table| To::Parquet(Box::new(table))),
            _ => Csv::new(file, &schema).map(To::Csv),
        };
        let to = to.map_err(|error| folder.refused(name, &error))?;
        Ok(Self { rows: Piece::new(&schema), schema, waiting: 0, to, error: None })
    }

    /// The file that it is in.
    pub(super) fn name(&self) -> &'static str {
        match self.to {
            To::Csv(_) => CSV,
            #[cfg(feature = "parquet")]
            To::Parquet(_) => PARQUET,
        }
    }

    /// Takes a row.
    pub(crate) fn see(&mut self, sample: &Sample) {
        if self.error.is_some() {
            return;
        }
        // No time of a run is beyond what is signed.
        let whole = |value: u64| i64::try_from(value).ok();
        let wholes = [
            whole(sample.index),
            whole(sample.query as u64),
            whole(sample.intended_ns),
            whole(sample.taken_ns),
            sample.sent_ns.and_then(whole),
            whole(sample.done_ns),
            sample.kernel_sent_ns.and_then(whole),
            sample.kernel_received_ns.and_then(whole),
            whole(sample.body_bytes),
        ];
        let mut wholes = wholes.into_iter();
        for column in self.rows.columns_mut() {
            match column {
                Column::Whole(values) => values.push(wholes.next().flatten()),
                Column::Text(values) => values.push(Some(sample.ending())),
                Column::Bool(values) => values.push(Some(sample.good)),
                Column::Number(values) => values.push(None),
            }
        }
        self.waiting += 1;
        if self.waiting == ROWS {
            self.error = self.write().err();
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let rows = std::mem::replace(&mut self.rows, Piece::new(&self.schema));
        self.waiting = 0;
        match &mut self.to {
            To::Csv(table) => table.write(&rows),
            #[cfg(feature = "parquet")]
            To::Parquet(table) => table.write(&rows),
        }
    }

    /// Writes the rest.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.write()?;
        let file = match self.to {
            To::Csv(table) => table.finish()?,
            #[cfg(feature = "parquet")]
            To::Parquet(table) => table.finish()?,
        };
        file.into_inner().map(drop).map_err(io::IntoInnerError::into_error)
    }
}
