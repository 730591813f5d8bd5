//! What can be wrong with an index.

use std::io;
use std::path::{Path, PathBuf};

use super::MAX_SHARDS;
use super::manifest::{FORMAT, MANIFEST};

/// Why an index cannot be opened or built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// There is no manifest: there is no index, or its making was interrupted.
    #[error(
        "{}: no finished index here ({MANIFEST} is missing, which is written last); build the \
         index again",
        directory.display()
    )]
    NotAnIndex {
        /// The directory.
        directory: PathBuf,
    },
    /// The manifest is not what we write.
    #[error("{}: damaged manifest: {reason}; build the index again", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong, with line and column where they are known.
        reason: String,
    },
    /// Another version wrote the index.
    #[error(
        "{}: format {found}, but this version reads format {FORMAT}; build the index again",
        path.display()
    )]
    Format {
        /// The manifest.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// A file of the index is not there.
    #[error("{}: listed in {MANIFEST} but missing; build the index again", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A file of the index is not the one that was written.
    #[error(
        "{}: damaged: {found}, but {MANIFEST} says {expected}; build the index again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// The index has no such shard.
    #[error("there is no shard {shard}: the index has {shards}, numbered from 0")]
    NoSuchShard {
        /// The shard asked for.
        shard: u32,
        /// How many there are.
        shards: u32,
    },
    /// A number of shards that cannot be.
    #[error("{shards} shards: give a number from 1 to {MAX_SHARDS}")]
    ShardCount {
        /// The number asked for.
        shards: u32,
    },
    /// A shard would be empty.
    #[error(
        "{documents} documents do not fill {shards} shards; use fewer shards or a larger corpus"
    )]
    TooFewDocuments {
        /// How many the corpus has.
        documents: u64,
        /// How many shards were asked for.
        shards: u32,
    },
    /// The directory is in use for something else.
    #[error(
        "{}: holds {entry:?}, which is not part of an index, so it is not replaced; name an empty \
         or a new folder",
        directory.display()
    )]
    Foreign {
        /// The directory.
        directory: PathBuf,
        /// An entry that we would not have made.
        entry: String,
    },
    /// Whom progress was told did not want more of it.
    #[error("the build was interrupted; nothing of it is left")]
    Interrupted,
    /// The system refuses.
    #[error("{}: {source}; check that the folder exists, is writable and has room", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The search engine refuses.
    #[error("{}: {reason}; build the index again", path.display())]
    Engine {
        /// The shard.
        path: PathBuf,
        /// What it says.
        reason: String,
    },
}

impl IndexError {
    /// For `map_err`: adds the path to what the system says.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// For `map_err`: adds the path to what the search engine or its term dictionary says.
    pub(crate) fn engine<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |error| Self::Engine { path, reason: error.to_string() }
    }
}
