//! Errors that prevent a run from starting. Failures during a run are counted instead.

use std::io;

/// The reason why a [`Plan`](crate::Plan) cannot be run or a text cannot be parsed, with advice on
/// how to fix it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A value is out of range, cannot be sent, or conflicts with another value.
    #[error("{0}")]
    Value(String),
    /// The duration is too short for the rate.
    #[error("{0}")]
    FewerThanOne(String),
}

/// Refuses a plan or a text, with a message that contains the fix.
pub(crate) fn refuse<T>(message: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError::Value(message.into()))
}

/// Why a run did not start.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan cannot be run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The host name does not resolve to any address.
    #[error("cannot resolve {host}: {source}; check the name, or write an IP address")]
    Resolve {
        /// The host.
        host: String,
        /// The error that the system returned.
        source: io::Error,
    },
    /// The run was interrupted before it began.
    #[error("interrupted while the host was being resolved")]
    Interrupted,
    /// The kernel or the device provides no timestamps, or the network stack cannot be bypassed.
    #[error("--stamps: {0}")]
    Stamps(io::Error),
    /// A thread could not be started, or the system refused to create its poller.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
