//! Which requests are sent.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::QueriesError;
use crate::requests::line_fault;
use crate::target::Scheme;

/// The longest file of queries, in bytes.
pub const QUERIES_BYTES_MAX: u64 = 64 << 20;

/// How a run goes through its queries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueryOrder {
    /// One after the other, and from the start again.
    #[default]
    InOrder,
    /// Each drawn uniformly, by the plan's seed.
    Random,
    /// In rounds: each query once, in a random order, and so again. However long a run is, no query is
    /// asked more than once more often than another.
    Rounds,
}

/// Reads requests of HTTP from a file: [`read_queries_for`] of a target of `http://`.
///
/// # Errors
///
/// As [`read_queries_for`].
pub fn read_queries(path: impl AsRef<Path>) -> Result<Vec<String>, QueriesError> {
    read_queries_for(path, Scheme::Http)
}

/// Reads requests from a file, one per line. Blank lines are skipped, and white space around a line.
/// `{key}` stands for the number of a key ([`Protocol::keys`](crate::Protocol::keys)). A line is
///
/// - of HTTP a request target, or a JSON object such as `{"method": "POST", "path": "/x", "headers":
///   {"k": "v"}, "body": "text"}`; all fields may be left out, `body_base64` is for what is no text, and
///   `class` names a group for `curtail jitter`;
/// - of gRPC a message as JSON, or without a schema its bytes as `{"base64": "..."}`;
/// - of memcached and Redis a command as one types it, such as `get key`, quotes allowed;
/// - of `tcp` text with the escapes `\n`, `\r`, `\t`, `\0`, `\\` and `\xHH`.
///
/// # Errors
///
/// [`QueriesError`] if the file cannot be read, is longer than [`QUERIES_BYTES_MAX`], has no request,
/// or has a line (which is named) that is none.
pub fn read_queries_for(
    path: impl AsRef<Path>,
    scheme: Scheme,
) -> Result<Vec<String>, QueriesError> {
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
        if let Some(what) = line_fault(scheme, line) {
            return Err(QueriesError::Line { path: path.to_owned(), line: i + 1, what });
        }
        queries.push(line.to_owned());
    }
    if queries.is_empty() {
        return Err(QueriesError::Empty { path: path.to_owned() });
    }
    Ok(queries)
}
