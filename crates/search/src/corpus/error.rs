//! What can be wrong with a corpus.

use std::io;
use std::path::PathBuf;

/// Why a corpus cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CorpusError {
    /// A file or folder cannot be read.
    #[error(
        "{}: cannot be read as a corpus: {source}; name a folder of text files or a file with one \
         JSON object per line",
        path.display()
    )]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A line of a JSON-lines file is not a document.
    #[error(
        "{}:{line}: {reason}; a line looks like {{\"title\": \"…\", \"body\": \"…\"}}",
        path.display()
    )]
    JsonLine {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The source has no document.
    #[error("{source_description}: there is no text to search; name another corpus")]
    Empty {
        /// The source.
        source_description: String,
    },
    /// Debian's package descriptions are not to be had.
    #[error("no Debian package descriptions: {why}; run `apt-get update`, or use another corpus")]
    NoDebian {
        /// Why.
        why: String,
    },
    /// The machine has none of the default sources.
    #[error(
        "this machine has no default corpus (Debian packages: {debian}; cargo's crates: {cargo}); \
         name a folder or a JSON-lines file with --corpus PATH"
    )]
    NoDefault {
        /// Why not Debian's package descriptions.
        debian: String,
        /// Why not the sources of crates.
        cargo: String,
    },
}
