//! Replaces an old index with a new one, which is built next to it and renamed when complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::IndexError;
use super::manifest::{MANIFEST, TERMS};

/// Returns whether the directory has entries. Fails if it has an entry that is not part of an
/// index: if a path was mistyped, other files must not be deleted.
pub(super) fn has_entries(directory: &Path) -> Result<bool, IndexError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries.map_err(IndexError::io(directory))?,
    };
    let mut any = false;
    for entry in entries {
        let name = entry.map_err(IndexError::io(directory))?.file_name();
        let entry = name.to_string_lossy().into_owned();
        let number = entry.strip_prefix("shard-").unwrap_or_default();
        if entry != MANIFEST && entry != TERMS && number.parse::<u32>().is_err() {
            return Err(IndexError::Foreign { directory: directory.to_owned(), entry });
        }
        any = true;
    }
    Ok(any)
}

/// Creates a folder next to `directory`, on the same file system so that it can be renamed.
/// Dropping the value removes the folder.
pub(super) fn workshop(directory: &Path) -> Result<TempDir, IndexError> {
    let (parent, name) = place(directory)?;
    fs::create_dir_all(&parent).map_err(IndexError::io(&parent))?;
    empty(&parent, &format!(".{name}.building"))
}

/// Creates an empty folder with this name. A build that was killed could not remove its own folder,
/// so this function removes it.
fn empty(parent: &Path, name: &str) -> Result<TempDir, IndexError> {
    let _ = fs::remove_dir_all(parent.join(name));
    let folder = tempfile::Builder::new().prefix(name).rand_bytes(0).tempdir_in(parent);
    folder.map_err(IndexError::io(parent))
}

/// Moves a complete index into place.
pub(super) fn install(workshop: TempDir, directory: &Path) -> Result<(), IndexError> {
    let (parent, name) = place(directory)?;
    let old = empty(&parent, &format!(".{name}.old"))?;
    // The two renames are not atomic. After a crash between them, there is no index, but there is
    // never a wrong one.
    match fs::rename(directory, old.path().join("index")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(IndexError::io(directory)(error));
        }
        _ => {}
    }
    fs::rename(workshop.path(), directory).map_err(IndexError::io(directory))?;
    let _ = workshop.keep();
    Ok(())
}

/// Returns the parent and the name of the directory. Also works for `index`, `.` and `a/..`.
fn place(directory: &Path) -> Result<(PathBuf, String), IndexError> {
    let whole = std::path::absolute(directory).map_err(IndexError::io(directory))?;
    let whole = if directory.exists() { whole.canonicalize().unwrap_or(whole) } else { whole };
    match (whole.parent(), whole.file_name()) {
        (Some(parent), Some(name)) => Ok((parent.to_owned(), name.to_string_lossy().into_owned())),
        _ => Err(IndexError::io(directory)(io::Error::other("an index cannot be here"))),
    }
}
