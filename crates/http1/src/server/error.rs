//! What can go wrong on a connection to a client.

use std::io;

use crate::reject::Reject;
use crate::write::WriteError;

/// Why a [`Connection`](super::Connection) serves no further request.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The request is refused. Respond to it with [`Connection::reject`](super::Connection::reject).
    #[error(transparent)]
    Reject(#[from] Reject),
    /// The client closed inside of a request. There is no client left.
    #[error("the client closed inside of a request")]
    IncompleteMessage,
    /// The client did not read its response within
    /// [`Timeouts::write`](crate::Timeouts::write).
    #[error("the client did not read its response within {limit_ms} ms")]
    WriteTimeout {
        /// The limit, in milliseconds.
        limit_ms: u64,
    },
    /// The transport failed.
    #[error("transport: {0}")]
    Io(#[from] io::Error),
    /// The caller gave a head that cannot be sent. Nothing of it was; another response may be tried.
    #[error("response: {0}")]
    Write(#[from] WriteError),
    /// The caller gave a body of another length than it had announced.
    #[error("the body of the response is not as long as announced")]
    BodyLength,
    /// The caller called out of order: a response without a request, a request before the response to
    /// the one before it was finished.
    #[error("called out of order: {0}")]
    OutOfOrder(&'static str),
}
