//! What can go wrong on a connection to a server.

use std::io;

use crate::response::BadResponse;

/// Why there is no whole response. The connection is then of no further use.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server closed or reset the connection before the first byte of a response. On a connection
    /// that was used before, it may simply have been too old.
    #[error("the server closed before it answered")]
    Closed,
    /// The connection was closed before the first byte of the request was sent.
    #[error("the connection was closed before the request was sent")]
    Unsent,
    /// The server closed or reset the connection inside of its response.
    #[error("the server closed inside of its response")]
    IncompleteMessage,
    /// What the server sent is not a response.
    #[error(transparent)]
    Parse(#[from] BadResponse),
    /// The body is longer than the caller allows.
    #[error("body of the response longer than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The transport failed otherwise.
    #[error("transport: {0}")]
    Io(#[from] io::Error),
    /// The caller sent a request on a connection that is not [`reusable`](super::Connection::reusable).
    #[error("the connection cannot carry another request")]
    NotReusable,
}

impl ClientError {
    /// The meaning of a failed read: a reset is an end, and ends are distinguished by whether the
    /// response had begun.
    pub(super) fn from_read(error: io::Error, begun: bool) -> ClientError {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        match error.kind() {
            ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof => {
                ClientError::end(begun)
            }
            _ => ClientError::Io(error),
        }
    }

    /// The meaning of the end of the connection.
    pub(super) fn end(begun: bool) -> ClientError {
        if begun { ClientError::IncompleteMessage } else { ClientError::Closed }
    }
}
