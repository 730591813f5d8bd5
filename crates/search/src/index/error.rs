//! What can be wrong with an index.

use std::io;
use std::path::{Path, PathBuf};

use super::MAX_SHARDS;
use super::manifest::MANIFEST;

/// Why an index cannot be opened or built.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    #[error(
        "{}: no finished index here ({MANIFEST} is missing, which is written last); build the \
         index again",
        directory.display()
    )]
    NotAnIndex { directory: PathBuf },
    #[error("{}: {reason}; build the index again", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("there is no shard {shard}: the index has {shards}, numbered from 0")]
    NoSuchShard { shard: u32, shards: u32 },
    #[error("{shards} shards: give a number from 1 to {MAX_SHARDS}")]
    ShardCount { shards: u32 },
    #[error(
        "{documents} documents do not fill {shards} shards; use fewer shards or a larger corpus"
    )]
    TooFewDocuments { documents: u64, shards: u32 },
    #[error(
        "{}: holds {entry:?}, which is not part of an index, so it is not replaced; name an empty \
         or a new folder",
        directory.display()
    )]
    Foreign { directory: PathBuf, entry: String },
    #[error("the build was interrupted; nothing of it is left")]
    Interrupted,
    #[error("{}: {source}; check that the folder exists, is writable and has room", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl IndexError {
    /// For `map_err`: adds the path to what the system says.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// For `map_err`: adds the path to what is wrong with what is there.
    pub(crate) fn damaged<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |error| Self::Damaged { path, reason: error.to_string() }
    }
}
