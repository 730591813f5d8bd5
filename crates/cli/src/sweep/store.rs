//! The directory of a sweep: what is run, and a line per point that is done.
//!
//! A line is written as a whole and synced before the next one begins. So a kill costs what is in
//! flight, and at most the last line is torn.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use curtail_sim::Outcome;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::plan::{Plan, Values};
use crate::exit::Stop;
use crate::say;

const PLAN: &str = "sweep.json";
const RESULTS: &str = "results.jsonl";
/// What is made of the results.
const MADE: [&str; 3] = ["results.csv", "results.parquet", "results.html"];

const READ: &str = "cannot be read";

/// A line of the results.
#[derive(Serialize)]
struct Line<'a> {
    point: usize,
    grid: Values<'a>,
    outcomes: &'a [Outcome],
}

/// A line of the results, as far as it must be known.
#[derive(Deserialize)]
struct Known<'a> {
    point: usize,
    #[serde(borrow)]
    grid: &'a RawValue,
    outcomes: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    policy: String,
}

/// The results of a sweep, locked against other processes.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    file: File,
    /// Where the line of each point is, and how long it is.
    places: Vec<Option<(u64, usize)>>,
    /// Where the next line goes.
    end: u64,
}

impl Store {
    /// Opens a directory, made where it is missing, and finds what is done. Nothing in it changes
    /// yet, except that it gets an empty file of results.
    pub(super) fn open(folder: &Path, plan: &Plan<'_>, restart: bool) -> Result<Self, Stop> {
        let path = folder.join(RESULTS);
        let lacking = |error: io::Error| lacking(&path, "cannot be written", &error);
        std::fs::create_dir_all(folder).map_err(lacking)?;
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(lacking)?;
        // Where a file system has no locks, nothing is known.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            let why = format!("{}: another sweep is writing it; let it end", path.display());
            return Err(Stop::Lacking(why));
        }
        let mut store = Self {
            folder: folder.to_owned(),
            file,
            places: vec![None; plan.grid.points()],
            end: 0,
        };
        if restart {
            return Ok(store);
        }
        let has_results = store.file.metadata().map_err(lacking)?.len() > 0;
        let difference = match std::fs::read_to_string(folder.join(PLAN)) {
            Ok(other) => plan.difference(&other),
            Err(_) => Some(format!("it has no {PLAN} that can be read")),
        };
        match difference {
            // Without results there is nothing to mix up.
            Some(difference) if has_results => Err(Stop::BadInput(format!(
                "{} holds another sweep: {difference}; give another --out, or drop it with \
                 --restart",
                folder.display()
            ))),
            Some(_) => Ok(store),
            None => {
                store.read(plan)?;
                Ok(store)
            }
        }
    }

    /// Reads what is done. A torn last line is none.
    fn read(&mut self, plan: &Plan<'_>) -> Result<(), Stop> {
        let path = self.folder.join(RESULTS);
        let mut reader = BufReader::new(&self.file);
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line);
            let length = read.map_err(|error| lacking(&path, READ, &error))?;
            if line.pop() != Some(b'\n') {
                return Ok(());
            }
            number += 1;
            let point = known(&line, plan).and_then(|point| match self.places[point] {
                Some(_) => Err(format!("point {point} is there twice")),
                None => Ok(point),
            });
            let point = point.map_err(|why| {
                Stop::BadInput(format!(
                    "{}:{number}: {why}; repair the line, or drop all results with --restart",
                    path.display()
                ))
            })?;
            self.places[point] = Some((self.end, line.len()));
            self.end += length as u64;
        }
    }

    /// The points that are not done.
    pub(super) fn missing(&self) -> Vec<usize> {
        let points = self.places.iter().enumerate();
        points.filter(|(_, place)| place.is_none()).map(|(point, _)| point).collect()
    }

    /// From here on the directory is this plan's: what else is there goes.
    pub(super) fn begin(&mut self, plan: &Plan<'_>) -> Result<(), Stop> {
        let path = self.folder.join(RESULTS);
        if self.end == 0 {
            // Results of another plan must never stand beside this one's, not even after a crash.
            self.file.set_len(0).map_err(|error| lacking(&path, "cannot be cut", &error))?;
            for name in MADE {
                remove(&self.folder.join(name))?;
            }
            self.replace(PLAN, |file| file.write_all(plan.json.as_bytes()))?;
        }
        let cut = self.file.set_len(self.end).and_then(|()| self.file.sync_all());
        cut.map_err(|error| lacking(&path, "cannot be cut", &error))
    }

    /// Keeps what a point came to.
    pub(super) fn append(
        &mut self,
        plan: &Plan<'_>,
        point: usize,
        outcomes: &[Outcome],
    ) -> Result<(), Stop> {
        let line = serde_json::to_string(&Line { point, grid: plan.values(point), outcomes });
        let mut line =
            line.map_err(|error| Stop::Lacking(format!("cannot write JSON: {error}")))?;
        let length = line.len();
        line.push('\n');
        let written = (|| {
            self.file.write_all_at(line.as_bytes(), self.end)?;
            self.file.sync_data()
        })();
        let path = self.folder.join(RESULTS);
        written.map_err(|error| lacking(&path, "cannot be written", &error))?;
        self.places[point] = Some((self.end, length));
        self.end += line.len() as u64;
        Ok(())
    }

    /// The line of a point that is done.
    pub(super) fn line(&self, point: usize) -> io::Result<String> {
        let (start, length) = self.places[point].unwrap_or_default();
        let mut line = vec![0; length];
        self.file.read_exact_at(&mut line, start)?;
        String::from_utf8(line).map_err(io::Error::other)
    }

    /// Prints all points, in order, as one JSON document.
    pub(super) fn print(&self) -> Result<(), Stop> {
        let mut stdout = BufWriter::new(io::stdout().lock());
        for point in 0..self.places.len() {
            let line = self.line(point);
            let line = line.map_err(|error| lacking(&self.folder.join(RESULTS), READ, &error))?;
            let before = if point == 0 { "[" } else { "," };
            writeln!(stdout, "{before}{line}").map_err(|error| say::unwritten(&error))?;
        }
        let end = writeln!(stdout, "]").and_then(|()| stdout.flush());
        end.map_err(|error| say::unwritten(&error))
    }

    /// Writes a file of the directory, which is there as a whole or not at all.
    pub(super) fn replace(
        &self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<(), Stop> {
        let path = self.folder.join(name);
        let written = (|| {
            let file =
                tempfile::Builder::new().permissions(readable()).tempfile_in(&self.folder)?;
            let mut buffered = BufWriter::new(file.as_file());
            write(&mut buffered)?;
            buffered.flush()?;
            drop(buffered);
            file.as_file().sync_all()?;
            file.persist(&path)?;
            File::open(&self.folder)?.sync_all()
        })();
        written.map_err(|error| lacking(&path, "cannot be written", &error))
    }
}

/// As other files are; temporary ones are for their owner alone.
fn readable() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}

/// The point of a line that belongs to the plan.
fn known(line: &[u8], plan: &Plan<'_>) -> Result<usize, String> {
    let line: Known<'_> = serde_json::from_slice(line).map_err(|error| {
        // Its own position would be taken for that of the line.
        let why = error.to_string();
        why.split(" at line").next().unwrap_or_default().to_owned()
    })?;
    let Known { point, grid, outcomes } = line;
    if point >= plan.grid.points() {
        return Err(format!("there is no point {point}"));
    }
    let expected = serde_json::to_string(&plan.values(point)).map_err(|error| error.to_string())?;
    if grid.get() != expected {
        return Err(format!("the values of point {point} are {expected}, not {grid}"));
    }
    if !outcomes.iter().map(|outcome| &outcome.policy).eq(&plan.policies) {
        return Err(format!("its policies are not {}", plan.policies.join(", ")));
    }
    Ok(point)
}

fn remove(path: &Path) -> Result<(), Stop> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(lacking(path, "cannot be removed", &error))
        }
        _ => Ok(()),
    }
}

fn lacking(path: &Path, what: &str, error: &io::Error) -> Stop {
    Stop::Lacking(format!("{}: {what}: {error}", path.display()))
}
