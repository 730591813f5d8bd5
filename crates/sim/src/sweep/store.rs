//! The directory of a sweep, which contains its plan, the lines of its finished points, and tables
//! of the results.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::error::StoreError;
use super::lines::Lines;
use super::plan::Plan;

const PLAN: &str = "sweep.json";
const RESULTS: &str = "results.jsonl";
const MADE: [&str; 4] = ["results.csv", "results.parquet", "results.html", "results.svg"];

/// The directory of a sweep, locked against other processes.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// The lines of finished points.
    pub lines: Lines,
}

impl Store {
    /// Opens a directory and reads the finished lines. Creates the directory if it is missing, and
    /// an empty results file if the directory belongs to this plan. No other changes are made at
    /// this time.
    pub fn open(folder: &Path, plan: &Plan, restart: bool) -> Result<Self, StoreError> {
        let path = folder.join(RESULTS);
        let lacking = |error: io::Error| StoreError::io(&path, "cannot be written", error);
        std::fs::create_dir_all(folder).map_err(lacking)?;
        let there = path.exists();
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(lacking)?;
        // File systems without locks return other errors, which are ignored.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(StoreError::Busy { path });
        }
        let mut lines = Lines::new(path.clone(), file, plan.grid().points());
        if !restart && let Err(refused) = find(folder, plan, &mut lines) {
            if !there {
                remove(&path)?;
            }
            return Err(refused);
        }
        Ok(Self { folder: folder.to_owned(), lines })
    }

    /// Assigns the directory to this plan, and deletes other results in it.
    pub fn begin(&mut self, plan: &Plan) -> Result<(), StoreError> {
        if self.lines.is_empty() {
            // This directory must never contain this plan and the results of another one, not even
            // after a crash.
            self.lines.cut()?;
            for name in MADE {
                remove(&self.folder.join(name))?;
            }
            self.replace(PLAN, |file| file.write_all(plan.json().as_bytes()))?;
        }
        self.lines.cut()
    }

    /// Replaces a file in the directory atomically.
    pub fn replace(
        &self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<(), StoreError> {
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
        written.map_err(|error| StoreError::io(&path, "cannot be written", error))
    }
}

fn find(folder: &Path, plan: &Plan, lines: &mut Lines) -> Result<(), StoreError> {
    let path = folder.join(PLAN);
    let (difference, foreign) = match std::fs::read_to_string(&path) {
        Ok(other) => (plan.difference(&other), !Plan::is_one(&other)),
        Err(_) => (Some(format!("it has no readable {PLAN}")), path.exists()),
    };
    match difference {
        // A plan without results can be overwritten, because there are no results that could be
        // attributed to the wrong plan.
        Some(difference)
            if foreign || lines.any()? || MADE.iter().any(|name| folder.join(name).exists()) =>
        {
            Err(StoreError::Another { folder: folder.to_owned(), difference })
        }
        Some(_) => Ok(()),
        None => lines.read(plan),
    }
}

/// The usual file permissions. Temporary files are readable only by their owner.
fn readable() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::io(path, "cannot be removed", error))
        }
        _ => Ok(()),
    }
}
