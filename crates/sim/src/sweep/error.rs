//! What can be wrong with a grid, and with the directory of its results.

use std::io;
use std::path::{Path, PathBuf};

use super::grid::MOST_POINTS;

/// Why a grid cannot be run. Every message names the value and the mend.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing to vary.
    #[error("the grid is empty; vary something, as --grid utilization=0.1,0.2,0.3")]
    Empty,
    /// Two axes are one.
    #[error("the grid has {key} twice; drop one")]
    Twice {
        /// The axis.
        key: String,
    },
    /// An axis has no value.
    #[error("grid {key}: the list is empty; give it a value, or drop it")]
    NoValues {
        /// The axis.
        key: String,
    },
    /// An axis has a value twice.
    #[error("grid {key}: {value} is there twice; drop one")]
    Duplicate {
        /// The axis.
        key: String,
        /// The value.
        value: String,
    },
    /// An axis varies nothing.
    #[error(
        "grid {key}: no parameter has this name, and {{{key}}} stands in no text of the \
         experiment; parameters are {parameters}"
    )]
    Unused {
        /// The axis.
        key: String,
        /// All that could be varied.
        parameters: String,
    },
    /// A text has a placeholder that no axis fills.
    #[error("{name} has {{{key}}}, and the grid has no {key}; add it, as --grid {key}=1,2")]
    Unfilled {
        /// The parameter.
        name: String,
        /// The placeholder.
        key: String,
    },
    /// A value does not fit its parameter.
    #[error("grid {key}: {value} does not fit; give {wanted}")]
    Misfit {
        /// The axis.
        key: String,
        /// The value.
        value: String,
        /// What would.
        wanted: &'static str,
    },
    /// Values from one number to another cannot be made.
    #[error("grid {key}: {why}")]
    Range {
        /// The axis.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// An axis has the name of a column of the results.
    #[error("grid {key}: the results have a column of this name; rename the key")]
    Column {
        /// The axis.
        key: String,
    },
    /// There are too many combinations.
    #[error("the grid has {points} points; at most {MOST_POINTS} can be run")]
    TooMany {
        /// How many.
        points: String,
    },
    /// An experiment of the grid is wrong.
    #[error("at {values}: {why}")]
    Point {
        /// The values of the point.
        values: String,
        /// What is wrong.
        why: String,
    },
}

impl Error {
    /// The key of the grid that it is about, if it is about one.
    #[must_use]
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
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory is that of another sweep.
    #[error("{} holds another sweep: {difference}", .folder.display())]
    Another {
        /// The directory.
        folder: PathBuf,
        /// How they differ.
        difference: String,
    },
    /// A line of the results is none, or belongs to another sweep.
    #[error("{}:{line}: {why}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A line that somebody else made is none, or belongs to another sweep.
    #[error("a result from elsewhere is not of this sweep: {why}; use the same curtail everywhere")]
    Foreign {
        /// What is wrong.
        why: String,
    },
    /// Another process writes there.
    #[error("{}: another sweep is writing it; let it end", .path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The system said no.
    #[error("{}: {what}: {source}", .path.display())]
    Io {
        /// Of which file.
        path: PathBuf,
        /// What cannot be done with it.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl StoreError {
    pub(super) fn io(path: &Path, what: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), what, source }
    }
}
