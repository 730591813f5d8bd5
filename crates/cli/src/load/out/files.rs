//! The output directory: nothing in it is silently overwritten.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::exit::Stop;

pub(crate) use std::fs::File;

/// The report and the plan, as JSON.
pub(crate) const RESULT: &str = "result.json";
/// The latencies by interval.
pub(crate) const LOG: &str = "latency.hlog";
/// Lower bounds for the latencies of requests without a good answer, by interval.
pub(crate) const UNANSWERED: &str = "unanswered.hlog";
pub(super) const PAGE: &str = "report.html";
pub(super) const CDF: &str = "cdf.svg";
pub(super) const CCDF: &str = "ccdf.svg";
pub(super) const CSV: &str = "samples.csv";
pub(super) const PARQUET: &str = "samples.parquet";

/// All files that a run may write.
const ALL: [&str; 8] = [RESULT, LOG, UNANSWERED, PAGE, CDF, CCDF, CSV, PARQUET];

/// Creates the directory of `--out`, if it does not exist.
pub(crate) fn make_directory(path: &Path) -> Result<(), Stop> {
    fs::create_dir_all(path).map_err(|error| {
        let why = match path.symlink_metadata() {
            Ok(found) if found.is_symlink() && !path.exists() => "it is a broken link".into(),
            Ok(_) => "it is not a directory".into(),
            Err(_) => error.to_string(),
        };
        Stop::Lacking(format!(
            "--out {}: cannot create this directory: {why}; give one that is writable",
            path.display()
        ))
    })
}

/// A directory for the results of one run.
pub(super) struct Folder {
    path: PathBuf,
    force: bool,
    /// Whether this run created the directory.
    made: bool,
    begun: Vec<&'static str>,
}

impl Folder {
    /// Creates the directory, if it does not exist. If the directory already contains results,
    /// removes them if `force` is set, and otherwise returns an error.
    pub(super) fn open(path: &Path, force: bool) -> Result<Self, Stop> {
        let made = !path.exists();
        let shown = path.display();
        make_directory(path)?;
        let there = ALL.into_iter().find(|name| path.join(name).symlink_metadata().is_ok());
        if let Some(name) = there.filter(|_| !force) {
            return Err(Stop::BadInput(format!(
                "--out {shown}: it contains {name} of another run; give another directory, or \
                 --force to overwrite its results"
            )));
        }
        let folder = Self { path: path.to_owned(), force, made, begun: Vec::new() };
        // Files of an earlier run must not pass for parts of this one.
        for name in ALL {
            folder.remove(name).map_err(|error| folder.refused(name, &error))?;
        }
        Ok(folder)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The error for a file that cannot be written before the measurement.
    pub(super) fn refused(&self, name: &str, error: &io::Error) -> Stop {
        let (out, file) = (self.path.display(), self.path(name));
        Stop::Lacking(format!(
            "--out {out}: cannot write {}: {error}; give a writable directory",
            file.display()
        ))
    }

    /// Creates a file that grows during the run.
    pub(super) fn begin(&mut self, name: &'static str) -> Result<File, Stop> {
        let file =
            create(&self.path(name), self.force).map_err(|error| self.refused(name, &error))?;
        self.begun.push(name);
        Ok(file)
    }

    /// Files that were created but no longer exist.
    pub(super) fn gone(&self) -> impl Iterator<Item = &'static str> {
        self.begun.iter().copied().filter(|name| self.path(name).symlink_metadata().is_err())
    }

    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        write_whole(&self.path(name), text, self.force)
    }

    /// Removes the created files, and the directory if it is new.
    pub(super) fn discard(&self) {
        for name in &self.begun {
            // Ignore errors: a leftover file contains no measurements, so it cannot mislead anyone.
            let _ = self.remove(name);
        }
        if self.made {
            let _ = fs::remove_dir(&self.path);
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        remove(&self.path(name))
    }
}

/// Without `force`, never overwrites a file that another run created meanwhile.
fn create(path: &Path, force: bool) -> io::Result<File> {
    if force { File::create(path) } else { File::create_new(path) }
}

/// Writes a complete file or none, so that a partial file never passes for a complete one.
pub(crate) fn write_whole(path: &Path, text: &str, force: bool) -> io::Result<()> {
    let mut file = create(path, force)?;
    let written = writeln!(file, "{}", text.trim_end());
    if written.is_err() {
        let _ = remove(path);
    }
    written
}

/// Removes a regular file, if it exists. Devices and links stay, because the user placed them there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(there) if there.is_file() => fs::remove_file(path),
        _ => Ok(()),
    }
}
