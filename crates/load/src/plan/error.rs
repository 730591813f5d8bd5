//! What can go wrong before a run. During one, failures are counted.

use std::io;

/// Why a [`Plan`](crate::Plan) cannot be run, or a text is no part of one, and what to write instead.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A value is out of range, cannot be sent, or does not go with another one.
    #[error("{0}")]
    Value(String),
    /// The duration is too short for the rate.
    #[error("{0}")]
    FewerThanOne(String),
}

/// Why a run did not take place.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan cannot be run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The host has no address.
    #[error("cannot resolve {host}: {source}; check the name, or write an IP address")]
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
