//! What can be wrong with a grid, and with the directory of its results.

use std::io;
use std::path::{Path, PathBuf};

pub(super) const MOST_POINTS: usize = 1_000_000;

/// Why a grid cannot be run. Every message names the value and the fix.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the grid is empty; vary something, as --grid utilization=0.1,0.2,0.3")]
    Empty,
    #[error("the grid has {key} twice; drop one")]
    Twice { key: String },
    #[error("grid {key}: the list is empty; give it a value, or drop it")]
    NoValues { key: String },
    #[error("grid {key}: {value} is there twice; drop one")]
    Duplicate { key: String, value: String },
    #[error(
        "grid {key}: no parameter has this name, and {{{key}}} stands in no text of the \
         experiment; parameters are {parameters}"
    )]
    Unused { key: String, parameters: String },
    #[error("{name} has {{{key}}}, and the grid has no {key}; add it, as --grid {key}=1,2")]
    Unfilled { name: String, key: String },
    #[error("grid {key}: {value} does not fit; give {wanted}")]
    Misfit { key: String, value: String, wanted: &'static str },
    #[error("grid {key}: {why}")]
    Range { key: String, why: String },
    #[error("grid {key}: the results have a column of this name; rename the key")]
    Column { key: String },
    #[error("the grid has {points} points; at most {MOST_POINTS} can be run")]
    TooMany { points: String },
    #[error("at {values}: {why}")]
    Point { values: String, why: String },
}

impl Error {
    /// The key of the grid that it is about, if it is about one.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Twice { key }
            | Self::NoValues { key }
            | Self::Duplicate { key, .. }
            | Self::Unused { key, .. }
            | Self::Misfit { key, .. }
            | Self::Range { key, .. }
            | Self::Column { key } => Some(key),
            Self::Empty | Self::Unfilled { .. } | Self::TooMany { .. } | Self::Point { .. } => None,
        }
    }
}

/// Why results cannot be kept, or found again. How to give another directory or to drop what is
/// there, each program knows: it appends that to [`StoreError::Another`] and [`StoreError::Line`].
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{} holds another sweep: {difference}", .folder.display())]
    Another { folder: PathBuf, difference: String },
    #[error("{}:{line}: {why}", .path.display())]
    Line { path: PathBuf, line: usize, why: String },
    #[error("a result from elsewhere is not of this sweep: {why}; use the same curtail everywhere")]
    Foreign { why: String },
    #[error("{}: another sweep is writing it; let it end", .path.display())]
    Busy { path: PathBuf },
    #[error("{}: {what}: {source}", .path.display())]
    Io { path: PathBuf, what: &'static str, source: io::Error },
}

impl StoreError {
    pub(super) fn io(path: &Path, what: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), what, source }
    }
}
