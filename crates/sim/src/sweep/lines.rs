//! The results of a sweep: one line per finished point, in the order in which the points finished.
//!
//! A line is written as a whole and synced before the next one is written. A crash therefore loses
//! only the unfinished points, and at most the last line is incomplete.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value as Json, value::RawValue};

use super::columns;
use super::error::StoreError;
use super::plan::Plan;

/// The parts of a line that are checked when it is read.
#[derive(Deserialize)]
struct Known<'a> {
    point: usize,
    #[serde(borrow)]
    grid: &'a RawValue,
    outcomes: Vec<Json>,
}

/// The lines of a sweep.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    file: File,
    /// Whether a line must survive a power failure.
    durable: bool,
    /// The offset and length of each point's line.
    places: Vec<Option<(u64, usize)>>,
    end: u64,
}

impl Lines {
    pub(super) fn new(path: PathBuf, file: File, points: usize) -> Self {
        Self { path, file, durable: true, places: vec![None; points], end: 0 }
    }

    /// Creates an empty set of lines in an unnamed file, which is deleted when it is closed.
    pub fn scratch(plan: &Plan) -> Result<Self, StoreError> {
        let path = std::env::temp_dir();
        match tempfile::tempfile() {
            Ok(file) => Ok(Self { durable: false, ..Self::new(path, file, plan.grid().points()) }),
            Err(error) => Err(StoreError::io(&path, "cannot hold a temporary file", error)),
        }
    }

    pub(super) fn any(&self) -> Result<bool, StoreError> {
        let metadata = self.file.metadata();
        Ok(metadata.map_err(|error| self.failed("cannot be written", error))?.len() > 0)
    }

    /// Reads the finished lines. Ignores an incomplete last line.
    pub(super) fn read(&mut self, plan: &Plan) -> Result<(), StoreError> {
        let mut reader = BufReader::new(&self.file);
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line);
            let length = read.map_err(|error| self.failed("cannot be read", error))?;
            if line.pop() != Some(b'\n') {
                return Ok(());
            }
            number += 1;
            let point = known(&line, plan).and_then(|point| self.unseen(point));
            let point = point.map_err(|why| {
                let path = self.path.clone();
                StoreError::Line { path, line: number, why }
            })?;
            self.places[point] = Some((self.end, line.len()));
            self.end += length as u64;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.end == 0
    }

    pub(super) fn cut(&self) -> Result<(), StoreError> {
        let cut = self.file.set_len(self.end).and_then(|()| self.file.sync_all());
        cut.map_err(|error| self.failed("cannot be cut", error))
    }

    /// Returns the unfinished points.
    pub fn missing(&self) -> Vec<usize> {
        let points = self.places.iter().enumerate();
        points.filter(|(_, place)| place.is_none()).map(|(point, _)| point).collect()
    }

    /// Appends a line that [`Plan::run`] has produced, in this process or elsewhere.
    pub fn append(&mut self, plan: &Plan, mut line: String) -> Result<(), StoreError> {
        let point = known(line.as_bytes(), plan).and_then(|point| self.unseen(point));
        let point = point.map_err(|why| StoreError::Foreign { why })?;
        let length = line.len();
        line.push('\n');
        let written = self.file.write_all_at(line.as_bytes(), self.end);
        let synced =
            written.and_then(|()| if self.durable { self.file.sync_data() } else { Ok(()) });
        synced.map_err(|error| self.failed("cannot be written", error))?;
        self.places[point] = Some((self.end, length));
        self.end += line.len() as u64;
        Ok(())
    }

    fn unseen(&self, point: usize) -> Result<usize, String> {
        match self.places[point] {
            Some(_) => Err(format!("point {point} occurs twice")),
            None => Ok(point),
        }
    }

    /// Returns the line of a finished point.
    pub fn line(&self, point: usize) -> io::Result<String> {
        let (start, length) = self.places[point].unwrap_or_default();
        let mut line = vec![0; length];
        self.file.read_exact_at(&mut line, start)?;
        String::from_utf8(line).map_err(io::Error::other)
    }

    /// Writes all points, in order, as one JSON document. The inner error means that a line cannot
    /// be read. The outer error means that the document cannot be written.
    pub fn write_json(&self, to: &mut impl Write) -> io::Result<Result<(), StoreError>> {
        for point in 0..self.places.len() {
            let line = match self.line(point) {
                Ok(line) => line,
                Err(error) => return Ok(Err(self.failed("cannot be read", error))),
            };
            writeln!(to, "{}{line}", if point == 0 { "[" } else { "," })?;
        }
        writeln!(to, "]")?;
        to.flush().map(Ok)
    }

    fn failed(&self, what: &'static str, error: io::Error) -> StoreError {
        StoreError::io(&self.path, what, error)
    }
}

/// Returns the point of a line, if the line belongs to the plan.
fn known(line: &[u8], plan: &Plan) -> Result<usize, String> {
    let line: Known<'_> = serde_json::from_slice(line).map_err(|error| {
        // The error's own position would be mistaken for a position in the file.
        let why = error.to_string();
        why.split(" at line").next().unwrap_or_default().to_owned()
    })?;
    let Known { point, grid, outcomes } = line;
    if point >= plan.grid().points() {
        return Err(format!("point {point} does not exist"));
    }
    let expected = serde_json::to_string(&plan.values(point)).map_err(|error| error.to_string())?;
    if grid.get() != expected {
        return Err(format!("the values of point {point} are {expected}, not {grid}"));
    }
    if !outcomes.iter().map(|outcome| &outcome["policy"]).eq(plan.policies()) {
        return Err(format!("its policies are not {}", plan.policies().join(", ")));
    }
    columns::check_kinds(plan.percentiles(), &outcomes)?;
    Ok(point)
}
