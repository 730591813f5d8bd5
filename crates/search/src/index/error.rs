//! Errors that occur when an index is opened or built.

use std::io;
use std::path::{Path, PathBuf};

use super::MAX_SHARDS;
use super::manifest::MANIFEST;

/// The reason why an index cannot be opened or built.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    #[error(
        "{}: no complete index ({MANIFEST}, which is written last, is missing); build the index \
         again",
        directory.display()
    )]
    NotAnIndex { directory: PathBuf },
    #[error("{}: {reason}; build the index again", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("shard {shard} does not exist: the index has {shards}, numbered from 0")]
    NoSuchShard { shard: u32, shards: u32 },
    #[error("{shards} shards: must be 1 to {MAX_SHARDS}")]
    ShardCount { shards: u32 },
    #[error(
        "{documents} documents are too few for {shards} shards; use fewer shards or a larger corpus"
    )]
    TooFewDocuments { documents: u64, shards: u32 },
    #[error(
        "{}: contains {entry:?}, which is not part of an index, so it is not replaced; name an \
         empty or a new folder",
        directory.display()
    )]
    Foreign { directory: PathBuf, entry: String },
    #[error("the build was interrupted; its files were removed")]
    Interrupted,
    #[error("{}: {source}; check that the folder exists, is writable and has room", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl IndexError {
    /// For `map_err`: adds the path to an error from the operating system.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// For `map_err`: adds the path to an error in the contents.
    pub(crate) fn damaged<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |error| Self::Damaged { path, reason: error.to_string() }
    }
}
