//! Which request targets are asked for.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::error::QueriesError;

/// The longest file of queries, in bytes.
pub const QUERIES_BYTES_MAX: u64 = 64 << 20;

/// How a run goes through its queries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueryOrder {
    /// One after the other, and from the start again.
    #[default]
    InOrder,
    /// Each drawn uniformly, by the plan's seed.
    Random,
}

/// Reads request targets from a file: one per line, each beginning with `/`. Blank lines are
/// skipped.
///
/// # Errors
///
/// [`QueriesError`] if the file cannot be read, is longer than [`QUERIES_BYTES_MAX`], has no query,
/// or has a line (which is named) that is not a request target.
pub fn read_queries(path: impl AsRef<Path>) -> Result<Vec<String>, QueriesError> {
    let path = path.as_ref();
    let read = |source| QueriesError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(read)?;
    let mut text = String::new();
    file.take(QUERIES_BYTES_MAX + 1).read_to_string(&mut text).map_err(read)?;
    if text.len() as u64 > QUERIES_BYTES_MAX {
        return Err(QueriesError::TooLong { path: path.to_owned(), limit: QUERIES_BYTES_MAX });
    }
    let mut queries = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if let Some(what) = fault(line) {
            return Err(QueriesError::Line { path: path.to_owned(), line: i + 1, what });
        }
        queries.push(line.to_owned());
    }
    if queries.is_empty() {
        return Err(QueriesError::Empty { path: path.to_owned() });
    }
    Ok(queries)
}

/// What is wrong with a request target.
fn fault(target: &str) -> Option<&'static str> {
    if !target.starts_with('/') {
        return Some("does not begin with `/`");
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some("has a character that must be percent-encoded, such as a space");
    }
    target.contains('#').then_some("has a fragment (#), which is never sent to a server")
}
