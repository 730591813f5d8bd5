//! What can be wrong with an arrival process.

use std::path::PathBuf;

use crate::text::TextError;

/// Why a text is no arrival process. The message names the value and the mend.
#[derive(Debug, thiserror::Error)]
pub enum ArrivalsError {
    /// It is not one.
    #[error("arrivals {text:?}: {why}")]
    Malformed {
        /// As written.
        text: String,
        /// What to write instead.
        why: String,
    },
    /// The file of a trace cannot be read.
    #[error("arrivals: {0}")]
    Text(TextError),
    /// A recorded trace cannot be used.
    #[error("arrivals: {}{}: {why}", .path.display(), line_suffix(*.line))]
    Trace {
        /// The file.
        path: PathBuf,
        /// The line, from 1; 0 where it is about the whole file.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

fn line_suffix(line: usize) -> String {
    if line == 0 { String::new() } else { format!(":{line}") }
}
