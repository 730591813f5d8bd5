//! Why a TLS configuration cannot be loaded.

use std::path::{Path, PathBuf};

/// Why a TLS configuration cannot be loaded. The message contains the file and the fix.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file is missing, has other contents than expected, or does not match another file.
    #[error("{}: {problem}; {fix}", file.display())]
    File {
        /// The path from the configuration.
        file: PathBuf,
        /// What is wrong.
        problem: String,
        /// What to do.
        fix: &'static str,
    },
    /// The settings contradict each other, or need something that the system does not have.
    #[error("{0}")]
    Settings(String),
    /// The TLS library refuses the configuration.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

impl TlsError {
    pub(super) fn file(file: &Path, problem: impl Into<String>, fix: &'static str) -> TlsError {
        TlsError::File { file: file.to_owned(), problem: problem.into(), fix }
    }

    /// A certificate that is well-formed PEM, but cannot be used.
    pub(super) fn certificate(file: &Path, problem: &dyn ToString) -> TlsError {
        let problem = problem.to_string();
        let problem = format!("contains a certificate that cannot be used: {problem}");
        TlsError::file(file, problem, "issue it again")
    }
}
