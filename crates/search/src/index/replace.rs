//! How a new index takes the place of an old one: built next to it, renamed when complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::IndexError;
use super::manifest::{MANIFEST, TERMS};

/// A build that was killed cannot remove its folder. One so old is nobody's any more.
const FORGOTTEN: Duration = Duration::from_secs(3600);

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

/// A new folder next to `directory`, on the same file system, so that a rename is enough. It
/// removes itself if the build fails.
pub(super) fn workshop(directory: &Path) -> Result<TempDir, IndexError> {
    let (parent, name) = place(directory)?;
    fs::create_dir_all(&parent).map_err(IndexError::io(&parent))?;
    let prefixes = [format!(".{name}.building-"), format!(".{name}.old-")];
    remove_forgotten(&parent, &prefixes);
    tempfile::Builder::new()
        .prefix(&prefixes[0])
        .tempdir_in(&parent)
        .map_err(IndexError::io(&parent))
}

/// Removes what builds that were killed have left behind. Where that fails, it is only litter.
fn remove_forgotten(parent: &Path, prefixes: &[String]) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = prefixes.iter().any(|prefix| name.to_string_lossy().starts_with(prefix));
        let changed = entry.metadata().and_then(|metadata| metadata.modified());
        let age = changed.ok().and_then(|changed| changed.elapsed().ok());
        if ours && age.is_some_and(|age| age > FORGOTTEN) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Puts a finished index in its place.
pub(super) fn install(workshop: TempDir, directory: &Path) -> Result<(), IndexError> {
    let (parent, name) = place(directory)?;
    let old = tempfile::Builder::new()
        .prefix(&format!(".{name}.old-"))
        .tempdir_in(&parent)
        .map_err(IndexError::io(&parent))?;
    // Two renames are not one step. A crash between them leaves no index, never a wrong one.
    match fs::rename(directory, old.path().join("index")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(IndexError::io(directory)(error));
        }
        _ => {}
    }
    let path = workshop.keep();
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
