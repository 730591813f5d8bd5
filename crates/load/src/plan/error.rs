//! What can go wrong before a run. During one, failures are counted.

use std::io;
use std::path::PathBuf;

use curtail_http1::WriteError;
use curtail_kernel::duration::format;

/// Why a text is not a [`Target`](crate::Target). The message names the text and what to write
/// instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`{why}")]
pub struct TargetError {
    pub(crate) text: String,
    pub(crate) why: String,
}

/// Why a [`Plan`](crate::Plan) cannot be run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A value is out of range, or does not go with another one.
    #[error("{0}")]
    Value(String),
    /// The duration is too short for the rate.
    #[error(
        "rate {rate:?} × duration {} is {:?} requests, fewer than one; use a higher rate or a longer \
         duration",
        format(*.ns),
        rounded(*.requests)
    )]
    FewerThanOne {
        /// Per second.
        rate: f64,
        /// The duration, in nanoseconds.
        ns: u64,
        /// Their product.
        requests: f64,
    },
    /// A header or a query that cannot be sent.
    #[error("{what} cannot be sent: {source}")]
    Unsendable {
        /// The header or the query.
        what: String,
        /// What is wrong with it.
        source: WriteError,
    },
    /// A request that cannot be sent.
    #[error("request `{request}`: {why}")]
    Request {
        /// Its text, or the start of it.
        request: String,
        /// What is wrong with it, and what to write instead.
        why: String,
    },
}

/// To three digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// Why a file of queries cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum QueriesError {
    /// The file cannot be read, or is too long.
    #[error(transparent)]
    Text(#[from] curtail_dist::TextError),
    /// A line is not a request.
    #[error("{path}:{line}: {what}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong, and what to write instead.
        what: String,
    },
    /// There is no query in the file.
    #[error("{path}: no query; write one request per line")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Why a run did not take place.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan cannot be run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The host has no address.
    #[error("cannot resolve {host}: {source}")]
    Resolve {
        /// The host.
        host: String,
        /// What the system says.
        source: io::Error,
    },
    /// The run was given up before it began.
    #[error("interrupted while the host was being resolved")]
    Interrupted,
    /// The kernel gives no timestamps, or nothing goes past the network stack.
    #[error("--stamps: {0}")]
    Stamps(io::Error),
    /// A thread could not be started, or the system did not let it wait for sockets.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
