//! Errors in grids and in the directories that contain their results.

use std::io;
use std::path::{Path, PathBuf};

pub(super) const MOST_POINTS: usize = 1_000_000;

/// The reason why a grid cannot run. Every message contains the value and the fix.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the grid is empty; add a parameter, like --grid utilization=0.1,0.2,0.3")]
    Empty,
    #[error("the grid has {key} twice; remove one")]
    Twice { key: String },
    #[error("grid {key}: the list is empty; add a value, or remove the key")]
    NoValues { key: String },
    #[error("grid {key}: {value} is given twice; remove one")]
    Duplicate { key: String, value: String },
    #[error(
        "grid {key}: no parameter has this name, and no text of the experiment contains \
         {{{key}}}; parameters are {parameters}"
    )]
    Unused { key: String, parameters: String },
    #[error("{name} contains {{{key}}}, but the grid has no {key}; add it, like --grid {key}=1,2")]
    Unfilled { name: String, key: String },
    #[error("grid {key}: {value} is not valid; use {wanted}")]
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
    /// Returns the key in the grid that caused the error, if any.
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

/// The reason why results cannot be written or read back. Each program appends its own advice to
/// the messages of [`StoreError::Another`] and [`StoreError::Line`], which states how to choose
/// another directory or delete the old results.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{} contains another sweep: {difference}", .folder.display())]
    Another { folder: PathBuf, difference: String },
    #[error("{}:{line}: {why}", .path.display())]
    Line { path: PathBuf, line: usize, why: String },
    #[error(
        "a remote result does not belong to this sweep: {why}; use the same version of curtail \
         everywhere"
    )]
    Foreign { why: String },
    #[error("{}: another sweep is writing this file; wait until it ends", .path.display())]
    Busy { path: PathBuf },
    #[error("{}: {what}: {source}", .path.display())]
    Io { path: PathBuf, what: &'static str, source: io::Error },
}

impl StoreError {
    pub(super) fn io(path: &Path, what: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), what, source }
    }
}
