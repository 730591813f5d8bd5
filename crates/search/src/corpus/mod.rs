//! Sources of documents.
//!
//! By default, the corpus is real text that the machine already has, so that a demo downloads
//! nothing. This text is the descriptions of Debian packages, or else the sources and documents of
//! the crates that cargo has downloaded. If a path is given, the corpus is read from a folder of
//! text files or a file of JSON lines.
//!
//! [`Limits`] apply to every source, and [`Corpus::remarks`] reports what a limit cut off.

use std::path::PathBuf;
use std::{env, io};

use gather::Gather;
use xxhash_rust::xxh64::Xxh64;

mod apt;
mod folder;
mod gather;
mod json_lines;

pub(crate) use gather::head;

/// A searchable document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The position in the corpus, starting at 0. Reading the same source again produces the same
    /// ids.
    pub id: u64,
    /// The title, which is searched and shown in results.
    pub title: String,
    /// The body, which is searched.
    pub body: String,
}

/// A source of documents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Source {
    /// Real text that the machine already has: the package descriptions that `apt-cache dumpavail`
    /// prints, or else [`Source::Cargo`].
    #[default]
    Default,
    /// The sources and documents of the crates that cargo has downloaded.
    Cargo,
    /// A folder of text files, or a file with one JSON object per line.
    Path(PathBuf),
}

/// The maximum size of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Number of documents.
    pub max_documents: u64,
    /// Total number of bytes in titles and bodies. The corpus takes this much memory.
    pub max_bytes: u64,
}

impl Default for Limits {
    /// 100,000 documents and 64 MiB.
    fn default() -> Self {
        Self { max_documents: 100_000, max_bytes: 64 << 20 }
    }
}

/// Documents with stable ids, and their source.
#[derive(Debug, Clone)]
pub struct Corpus {
    documents: Vec<Document>,
    description: String,
    remarks: Vec<String>,
    fingerprint: String,
}

impl Corpus {
    /// Reads a corpus.
    pub fn load(source: &Source, limits: Limits) -> Result<Self, CorpusError> {
        match source {
            Source::Default => Self::load_default(limits),
            Source::Cargo => Self::load_cargo(limits),
            Source::Path(path) if path.is_dir() => {
                let mut gather = Gather::new(limits);
                folder::read(path, None, &mut gather)?;
                gather.finish(|n| format!("{n} sections of text files under {}", path.display()))
            }
            Source::Path(path) => {
                let mut gather = Gather::new(limits);
                json_lines::read(path, &mut gather)?;
                gather.finish(|n| format!("{n} documents of {}", path.display()))
            }
        }
    }

    /// Creates a corpus from titles and bodies, for tests and for callers with their own source.
    pub fn from_texts<I, T, B>(texts: I, description: &str) -> Self
    where
        I: IntoIterator<Item = (T, B)>,
        T: Into<String>,
        B: Into<String>,
    {
        let documents = (0..)
            .zip(texts)
            .map(|(id, (title, body))| Document { id, title: title.into(), body: body.into() })
            .collect();
        Self::new(documents, description.to_owned(), Vec::new())
    }

    /// Returns the documents. The document with id `i` is at index `i`.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// Returns a human-readable description: `63,666 Debian package descriptions from apt-cache
    /// dumpavail`.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns sentences to print. Each sentence states what was left out, and why.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Returns a hash of all documents in order. Indexes store it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn new(documents: Vec<Document>, description: String, remarks: Vec<String>) -> Self {
        let mut hash = Xxh64::new(0);
        for document in &documents {
            for text in [&document.title, &document.body] {
                // The lengths are also hashed, so that the hashes of ("ab", "c") and ("a", "bc")
                // differ.
                hash.update(&(text.len() as u64).to_le_bytes());
                hash.update(text.as_bytes());
            }
        }
        Self { documents, description, remarks, fingerprint: format!("{:016x}", hash.digest()) }
    }

    fn load_default(limits: Limits) -> Result<Self, CorpusError> {
        let debian = match apt::load(limits) {
            Ok(corpus) => return Ok(corpus),
            Err(why) => why,
        };
        match Self::load_cargo(limits) {
            Ok(corpus) => Ok(corpus),
            Err(cargo) => Err(CorpusError::NoDefault { debian, cargo: cargo.to_string() }),
        }
    }

    fn load_cargo(limits: Limits) -> Result<Self, CorpusError> {
        let home = env::var_os("CARGO_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let home = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
        let sources = home.unwrap_or_default().join("registry").join("src");
        let mut gather = Gather::new(limits);
        folder::read(&sources, Some(&["rs", "md", "txt"]), &mut gather)?;
        gather.finish(|n| format!("{n} sections of crates under {}", sources.display()))
    }
}

#[cfg(test)]
mod tests;

/// The reason why a corpus cannot be read.
#[allow(missing_docs, reason = "the messages document the variants")]
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
        "{}: {reason}; a line looks like {{\"title\": \"…\", \"body\": \"…\"}}",
        path.display()
    )]
    Json { path: PathBuf, reason: String },
    #[error("{source_description}: there is no text to search; name another corpus")]
    Empty { source_description: String },
    #[error(
        "this machine has no default corpus (Debian packages: {debian}; cargo's crates: {cargo}); \
         name a folder or a JSON-lines file with --corpus PATH"
    )]
    NoDefault { debian: String, cargo: String },
}
