//! The directory of `--out`: nothing in it is silently overwritten, a partial file never passes for a
//! complete one, and a file that cannot be written does not lose the others.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::exit::{Stop, bad, lacking};
use crate::say;

/// A directory for the results of one run.
pub(crate) struct Folder {
    path: PathBuf,
    /// Whether files may be overwritten. Without it, not even one that another run created meanwhile
    /// is.
    force: bool,
    /// Whether this run created the directory.
    made: bool,
    begun: Vec<&'static str>,
    /// The files that could not be written, and the reasons.
    errors: Vec<String>,
}

/// Creates a directory, if it does not exist.
fn make(path: &Path) -> Result<(), Stop> {
    fs::create_dir_all(path).map_err(|error| {
        let why = match path.symlink_metadata() {
            Ok(found) if found.is_symlink() && !path.exists() => "it is a broken link".into(),
            Ok(_) => "it is not a directory".into(),
            Err(_) => error.to_string(),
        };
        let path = path.display();
        lacking!("--out {path}: cannot create this directory: {why}; give one that is writable")
    })
}

impl Folder {
    /// Opens a directory whose files may be overwritten. Files of an earlier run stay until they are
    /// replaced.
    pub(crate) fn over(path: &Path) -> Result<Self, Stop> {
        Self::open(path, true, "", |_| false)
    }

    /// Creates the directory, if it does not exist. If it contains files of `another` run, which are
    /// those whose names are `ours`, removes them if `force` is set, because they must not pass for
    /// parts of this run. Otherwise returns an error.
    pub(crate) fn open(
        path: &Path,
        force: bool,
        another: &str,
        ours: impl Fn(&str) -> bool,
    ) -> Result<Self, Stop> {
        let made = !path.exists();
        make(path)?;
        let (path, errors) = (path.to_owned(), Vec::new());
        let folder = Self { path, force, made, begun: Vec::new(), errors };
        let names = fs::read_dir(&folder.path).map_err(|error| folder.unwritable(&error))?;
        let names = names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| ours(name)).collect();
        names.sort_by_key(|name| (name != "result.json", name.clone()));
        if let Some(name) = names.first().filter(|_| !force) {
            return Err(bad!(
                "--out {}: it contains {name} of another {another}; give another directory, or \
                 --force to overwrite {}",
                folder.path.display(),
                if another == "run" { "its results" } else { "it" }
            ));
        }
        for name in names {
            remove(&folder.path(&name)).map_err(|error| folder.refused(&name, &error))?;
        }
        Ok(folder)
    }

    /// Checks that files can be created, which only creating one shows.
    pub(crate) fn writable(self) -> Result<Self, Stop> {
        tempfile::tempfile_in(&self.path).map_err(|error| self.unwritable(&error))?;
        Ok(self)
    }

    fn unwritable(&self, error: &io::Error) -> Stop {
        lacking!("--out {}: {error}; give a writable directory", self.path.display())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The error for a file that cannot be written before the measurement.
    pub(crate) fn refused(&self, name: &str, error: &io::Error) -> Stop {
        let (out, file) = (self.path.display(), self.path(name));
        lacking!("--out {out}: cannot write {}: {error}; give a writable directory", file.display())
    }

    /// Creates a file that grows during the run.
    pub(crate) fn begin(&mut self, name: &'static str) -> Result<File, Stop> {
        let file = create(&self.path(name), self.force);
        let file = file.map_err(|error| self.refused(name, &error))?;
        self.begun.push(name);
        Ok(file)
    }

    /// Records that a file could not be written.
    pub(crate) fn lost(&mut self, name: &str, why: impl std::fmt::Display) {
        self.errors.push(format!("cannot write {}: {why}", self.path(name).display()));
    }

    /// Writes a complete file or none.
    pub(crate) fn write(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) {
        if let Err(error) = write_whole(&self.path(name), self.force, body) {
            self.lost(name, error);
        }
    }

    /// Writes a text. If there is none, removes the file of an earlier run, which would be mistaken
    /// for a result of this run.
    pub(crate) fn write_text(&mut self, name: &str, text: Option<String>) {
        match text {
            Some(text) => self.write(name, |file| writeln!(file, "{}", text.trim_end())),
            None if self.force => {
                remove(&self.path(name)).unwrap_or_else(|error| self.lost(name, error));
            }
            None => {}
        }
    }

    /// Removes the created files, and the directory if it is new.
    pub(crate) fn discard(&self) {
        for name in &self.begun {
            // Ignore errors: a leftover file contains no measurements, so it cannot mislead anyone.
            let _ = remove(&self.path(name));
        }
        if self.made {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Ends the run. The error names the files that could not be written, and the reasons.
    pub(crate) fn finish(mut self) -> Result<(), Stop> {
        // The contents of files that were removed are lost.
        for name in std::mem::take(&mut self.begun) {
            if self.path(name).symlink_metadata().is_err() {
                self.lost(name, "it was removed during the run");
            }
        }
        if self.errors.is_empty() {
            return Ok(());
        }
        let errors = self.errors.join("\n  ");
        Err(lacking!("{errors}\n  the report on standard output is complete"))
    }
}

fn create(path: &Path, force: bool) -> io::Result<File> {
    if force { File::create(path) } else { File::create_new(path) }
}

/// Writes a complete file or none.
pub(crate) fn write_whole(
    path: &Path,
    force: bool,
    body: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = BufWriter::new(create(path, force)?);
    let written = body(&mut file).and_then(|()| file.flush());
    if written.is_err() {
        // What is still in the buffer must not be written by dropping it.
        drop(file.into_parts());
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

/// Writes a page into the directory of `--out`, creates the directory if needed, and reports what the
/// page shows.
pub(crate) fn write_page(out: &Path, name: &str, page: &str, shows: &str) -> Result<(), Stop> {
    let path = out.join(name);
    let written = fs::create_dir_all(out).and_then(|()| fs::write(&path, page));
    written.map_err(|error| lacking!("{}: {error}; give another --out", path.display()))?;
    say::aside(format_args!("{shows} is drawn in {}", path.display()));
    Ok(())
}
