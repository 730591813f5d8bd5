//! What can be wrong with an arrival process.

use std::path::PathBuf;

use crate::text::TextError;

/// Why a text is no arrival process. The message names the value and the mend.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, thiserror::Error)]
pub enum ArrivalsError {
    #[error("arrivals {text:?}: {why}")]
    Malformed { text: String, why: String },
    #[error("arrivals: {0}")]
    Text(TextError),
    #[error("arrivals: {}{}: {why}", .path.display(), line_suffix(*.line))]
    Trace { path: PathBuf, line: usize, why: String },
}

fn line_suffix(line: usize) -> String {
    if line == 0 { String::new() } else { format!(":{line}") }
}
