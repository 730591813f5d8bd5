//! What can be wrong with a corpus.

use std::io;
use std::path::PathBuf;

/// Why a corpus cannot be read.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CorpusError {
    #[error(
        "{}: cannot be read as a corpus: {source}; name a folder of text files or a file with one \
         JSON object per line",
        path.display()
    )]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{}:{line}: {reason}; a line looks like {{\"title\": \"…\", \"body\": \"…\"}}",
        path.display()
    )]
    JsonLine { path: PathBuf, line: u64, reason: String },
    #[error("{source_description}: there is no text to search; name another corpus")]
    Empty { source_description: String },
    #[error("no Debian package descriptions: {why}; run `apt-get update`, or use another corpus")]
    NoDebian { why: String },
    #[error(
        "this machine has no default corpus (Debian packages: {debian}; cargo's crates: {cargo}); \
         name a folder or a JSON-lines file with --corpus PATH"
    )]
    NoDefault { debian: String, cargo: String },
}
