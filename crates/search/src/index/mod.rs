//! An index on disk, which consists of N shards, the statistics of the whole corpus, and a
//! manifest.
//!
//! ```text
//! DIR/manifest.json   what the index is; written last
//! DIR/terms.fst       term → number of documents, over all shards
//! DIR/shard-0/ …      one tantivy index each, of one segment
//! ```
//!
//! Document `i` is in shard `i % N`. The statistics cover the whole corpus, because BM25 weights a
//! word by its rarity and a document by its length relative to the average. If a shard used only
//! its own counts, its scores could not be compared with those of another shard.
//!
//! An index is built in a folder next to `DIR` and renamed when it is complete. Every file is
//! checked against the manifest before it is used. An index that is incomplete, is damaged, or
//! contains files from another index is therefore never used.

mod build;
mod manifest;
mod replace;
mod statistics;

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use manifest::MANIFEST;

pub(crate) use manifest::Manifest;
pub(crate) use statistics::GlobalStatistics;

use crate::corpus::Corpus;

/// Maximum number of shards in an index.
pub(crate) const MAX_SHARDS: u32 = 1024;

/// A complete index.
#[derive(Debug, Clone)]
pub struct ShardedIndex {
    directory: PathBuf,
    manifest: Manifest,
}

/// A callback that receives the number of documents indexed so far and the total number. It is
/// called on the thread that builds the index. `Break` ends the build with
/// [`IndexError::Interrupted`].
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// What [`ShardedIndex::open_or_build`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The index existed and matches.
    Reused,
    /// There was no index.
    Built,
    /// There was an index, but it could not be used.
    Rebuilt {
        /// The reason, as human-readable text.
        why: String,
    },
}

impl ShardedIndex {
    /// Opens an index and checks all of its files, which takes a few milliseconds for 20 MB.
    pub fn open(directory: &Path) -> Result<Self, IndexError> {
        let manifest = Manifest::read(directory)?;
        manifest.verify_terms(directory)?;
        for shard in 0..manifest.shard_count() {
            manifest.verify_shard(directory, shard)?;
        }
        Ok(Self { directory: directory.to_owned(), manifest })
    }

    /// Opens the index of this corpus with this number of shards. Builds it first if it does not
    /// exist or cannot be used.
    ///
    /// Replaces an index of another corpus. Does not change a folder that contains anything other
    /// than an index.
    pub fn open_or_build(
        directory: &Path,
        corpus: &Corpus,
        shards: u32,
        progress: Progress<'_>,
    ) -> Result<(Self, Outcome), IndexError> {
        if !replace::has_entries(directory)? {
            return Self::build(directory, corpus, shards, progress)
                .map(|index| (index, Outcome::Built));
        }
        let why = match Self::open(directory) {
            Ok(index) => match index.differs(corpus, shards) {
                None => return Ok((index, Outcome::Reused)),
                Some(why) => why,
            },
            Err(error) => error.to_string(),
        };
        Self::build(directory, corpus, shards, progress)
            .map(|index| (index, Outcome::Rebuilt { why }))
    }

    /// Builds an index, and replaces an existing one.
    ///
    /// Memory: about the size of the shards on disk, in addition to the corpus.
    pub fn build(
        directory: &Path,
        corpus: &Corpus,
        shards: u32,
        progress: Progress<'_>,
    ) -> Result<Self, IndexError> {
        if shards == 0 || shards > MAX_SHARDS {
            return Err(IndexError::ShardCount { shards });
        }
        if (corpus.documents().len() as u64) < u64::from(shards) {
            let documents = corpus.documents().len() as u64;
            return Err(IndexError::TooFewDocuments { documents, shards });
        }
        replace::has_entries(directory)?;
        let workshop = replace::workshop(directory)?;
        let manifest = build::build(workshop.path(), corpus, shards, progress)?;
        replace::install(workshop, directory)?;
        Ok(Self { directory: directory.to_owned(), manifest })
    }

    /// Returns the folder of the index.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> u32 {
        self.manifest.shard_count()
    }

    fn differs(&self, corpus: &Corpus, shards: u32) -> Option<String> {
        let have = &self.manifest;
        if have.fingerprint != corpus.fingerprint() {
            return Some(format!(
                "it was built from another corpus ({}, not {})",
                have.source,
                corpus.description()
            ));
        }
        let count = have.shard_count();
        let plural = if count == 1 { "" } else { "s" };
        (count != shards).then(|| format!("it has {count} shard{plural}, not {shards}"))
    }
}

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
