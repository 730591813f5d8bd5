//! An index on disk: N shards, the statistics of the whole corpus, and a manifest.
//!
//! ```text
//! DIR/manifest.json   what the index is; written last
//! DIR/terms.fst       term → number of documents, over all shards
//! DIR/shard-0/ …      one tantivy index each, of one segment
//! ```
//!
//! Document `i` lives in shard `i % N`. Why statistics of the whole corpus: BM25 weighs a word by
//! how rare it is and a document by how long it is against the average. A shard that used its own
//! counts would give scores that cannot be compared with another shard's.
//!
//! An index is built in a folder next to `DIR` and renamed when it is complete, and every file is
//! checked against the manifest before it is used. So a half-built, torn or mixed-up index is
//! never taken for a good one.

mod build;
mod error;
mod manifest;
mod replace;
mod statistics;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

pub use error::IndexError;
pub(crate) use manifest::Manifest;
pub(crate) use statistics::GlobalStatistics;

use crate::corpus::Corpus;

/// The most shards in one index.
pub(crate) const MAX_SHARDS: u32 = 1024;

/// A complete index.
#[derive(Debug, Clone)]
pub struct ShardedIndex {
    directory: PathBuf,
    manifest: Manifest,
}

/// Hears how many documents are done, and how many there are; called on the thread that builds.
/// `Break` ends the build with [`IndexError::Interrupted`].
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// What [`ShardedIndex::open_or_build`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The index was there and matches.
    Reused,
    /// There was none.
    Built,
    /// There was one that could not be used.
    Rebuilt {
        /// Why not, for people.
        why: String,
    },
}

impl ShardedIndex {
    /// Opens an index and checks every file of it: milliseconds for 20 MB.
    pub fn open(directory: &Path) -> Result<Self, IndexError> {
        let manifest = Manifest::read(directory)?;
        manifest.verify_terms(directory)?;
        for shard in 0..manifest.shard_count() {
            manifest.verify_shard(directory, shard)?;
        }
        Ok(Self { directory: directory.to_owned(), manifest })
    }

    /// Opens the index of this corpus with this many shards, and builds it first if it is not
    /// there or cannot be used.
    ///
    /// An index of another corpus is replaced. A folder that holds anything but an index is not
    /// touched.
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

    /// Builds an index, replacing the one that may be there.
    ///
    /// Memory: about as much as the shards take on disk, besides the corpus.
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

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// How many shards it has.
    pub fn shards(&self) -> u32 {
        self.manifest.shard_count()
    }

    fn differs(&self, corpus: &Corpus, shards: u32) -> Option<String> {
        let have = &self.manifest;
        if have.fingerprint != corpus.fingerprint() {
            return Some(format!(
                "it is of another corpus ({}, not {})",
                have.source,
                corpus.description()
            ));
        }
        let count = have.shard_count();
        let plural = if count == 1 { "" } else { "s" };
        (count != shards).then(|| format!("it has {count} shard{plural}, not {shards}"))
    }
}
