//! How a new index takes the place of an old one: built next to it, renamed when complete.
//!
//! A build that is killed cannot remove its folder, so the next one does. Who works in a folder holds
//! a lock on it, which ends with the process, however that ends.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use super::IndexError;
use super::manifest::{MANIFEST, TERMS};

/// Whether there is something at this place.
pub(super) fn has_entries(directory: &Path) -> Result<bool, IndexError> {
    Ok(!entries(directory)?.is_empty())
}

/// An error if the directory holds something that an index does not have. People mistype paths;
/// their files are not ours to delete.
pub(super) fn refuse_foreign(directory: &Path) -> Result<(), IndexError> {
    let ours = |name: &str| {
        let number = name.strip_prefix("shard-").unwrap_or_default();
        name == MANIFEST || name == TERMS || number.parse::<u32>().is_ok()
    };
    match entries(directory)?.into_iter().find(|name| !ours(name)) {
        None => Ok(()),
        Some(entry) => Err(IndexError::Foreign { directory: directory.to_owned(), entry }),
    }
}

/// A folder of this process's own. It removes itself.
pub(super) struct Workshop {
    folder: TempDir,
    /// Held for as long as this lives; none where the file system has no locks.
    _lock: Option<File>,
}

impl Workshop {
    /// Makes one in `parent`, whose lock the caller holds: no sweep comes between the two steps.
    fn new(parent: &Path, prefix: &str) -> Result<Self, IndexError> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent);
        let folder = folder.map_err(IndexError::io(parent))?;
        let lock = lock(folder.path(), FlockOperation::NonBlockingLockExclusive).ok();
        Ok(Self { folder, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// A new folder next to `directory`, on the same file system, so that a rename is enough.
pub(super) fn workshop(directory: &Path) -> Result<Workshop, IndexError> {
    let (parent, name) = place(directory)?;
    fs::create_dir_all(&parent).map_err(IndexError::io(&parent))?;
    let prefixes = [format!(".{name}.building-"), format!(".{name}.old-")];
    // For a moment only. Without it there may be other builds, so nothing is swept.
    let whole = lock(&parent, FlockOperation::LockExclusive);
    if whole.is_ok() {
        remove_forgotten(&parent, &prefixes);
    }
    Workshop::new(&parent, &prefixes[0])
}

/// Locks a folder until the file is closed.
fn lock(folder: &Path, how: FlockOperation) -> io::Result<File> {
    let file = File::open(folder)?;
    flock(&file, how)?;
    Ok(file)
}

/// Removes what builds that were killed have left behind. Where that fails, it is only litter.
fn remove_forgotten(parent: &Path, prefixes: &[String]) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = prefixes.iter().any(|prefix| name.to_string_lossy().starts_with(prefix));
        if ours && lock(&entry.path(), FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Puts a finished index in its place.
pub(super) fn install(workshop: Workshop, directory: &Path) -> Result<(), IndexError> {
    let (parent, name) = place(directory)?;
    let whole = lock(&parent, FlockOperation::LockExclusive);
    let old = Workshop::new(&parent, &format!(".{name}.old-"))?;
    drop(whole);
    // Two renames are not one step. A crash between them leaves no index, never a wrong one.
    match fs::rename(directory, old.path().join("index")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(IndexError::io(directory)(error));
        }
        _ => {}
    }
    let path = workshop.folder.keep();
    let renamed = fs::rename(&path, directory).map_err(IndexError::io(directory));
    if renamed.is_err() {
        // Do not litter; the error that matters is the rename's.
        let _ = fs::remove_dir_all(&path);
    }
    renamed
}

fn entries(directory: &Path) -> Result<Vec<String>, IndexError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(IndexError::io(directory)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(IndexError::io(directory))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// The parent and the name of the directory, also of `index`, `.` and `a/..`.
fn place(directory: &Path) -> Result<(PathBuf, String), IndexError> {
    let whole = std::path::absolute(directory).map_err(IndexError::io(directory))?;
    let whole = if directory.exists() { whole.canonicalize().unwrap_or(whole) } else { whole };
    match (whole.parent(), whole.file_name()) {
        (Some(parent), Some(name)) => Ok((parent.to_owned(), name.to_string_lossy().into_owned())),
        _ => {
            let source = io::Error::other("an index cannot be here");
            Err(IndexError::Io { path: directory.to_owned(), source })
        }
    }
}
