//! The server's side of a connection.
//!
//! Methods, in the order they are called:
//!
//! - [`Connection::next_request`] waits for a whole request; or [`Connection::next_head`] for its head
//!   and [`Connection::read_body`] for the rest, where the head decides how long the body may be;
//! - [`Connection::peer_closed`], meanwhile a response is worked on;
//! - [`Connection::respond`], or [`Connection::start_response`], [`Connection::write_body`] as often
//!   as needed, [`Connection::finish_body`]; [`Connection::reject`] after a
//!   [`ServerError::Reject`];
//! - [`Connection::close`] in the end, so that the client sees the last response and not a reset.
//!
//! Dropping a connection in the middle of a response is the way to tell the client that the response is
//! broken.

mod receive;
mod respond;

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use crate::framing::Version;
use crate::io::fill;
use crate::limits::{Limits, Timeouts};
use crate::reject::Reject;
use crate::request::RequestHead;
use crate::write::WriteError;

/// Why a [`Connection`] serves no further request.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The request is refused. Respond to it with [`Connection::reject`].
    #[error(transparent)]
    Reject(#[from] Reject),
    /// The client closed inside of a request. There is no client left.
    #[error("the client closed inside of a request")]
    IncompleteMessage,
    /// The client did not read its response within
    /// [`Timeouts::write`](crate::Timeouts::write).
    #[error("the client did not read its response within {0} ms")]
    WriteTimeout(u64),
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

/// A whole request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method, target and fields.
    pub head: RequestHead,
    /// The body, without its framing; empty if there is none.
    pub body: Bytes,
}

/// A connection to a client, over any stream of bytes.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    limits: Limits,
    timeouts: Timeouts,
    /// Received and not yet parsed; at most `limits.buffer_bound()` bytes.
    input: BytesMut,
    /// Rendered and not yet written: a head or a small response.
    output: BytesMut,
    receiving: receive::Receiving,
    /// The request that is being read or answered.
    exchange: Option<Exchange>,
    /// No further request is served.
    closing: bool,
    /// The client closed its side, or the transport failed.
    peer_closed: bool,
}

/// What the response to a request depends on.
#[derive(Debug)]
struct Exchange {
    is_head: bool,
    version: Version,
    keep_alive: bool,
    /// Set once the head of the response is rendered.
    body: Option<respond::Outgoing>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// A connection over a stream that was just accepted.
    pub fn new(stream: S, limits: Limits, timeouts: Timeouts) -> Connection<S> {
        Connection {
            stream,
            limits,
            timeouts,
            input: BytesMut::new(),
            output: BytesMut::new(),
            receiving: receive::Receiving::default(),
            exchange: None,
            closing: false,
            peer_closed: false,
        }
    }

    /// The stream, for its addresses and options.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// True if not one byte of a next request is here, so that closing now loses nothing. A server
    /// that shuts down closes its idle connections and lets the others finish.
    pub fn is_idle(&self) -> bool {
        self.exchange.is_none() && self.input.is_empty() && self.receiving.body_is_read()
    }

    /// True if no further request will be served.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Makes the response to the current or next request the last one: it says `Connection: close`.
    pub fn close_after_response(&mut self) {
        self.receiving.last = true;
        if let Some(exchange) = &mut self.exchange {
            exchange.keep_alive = false;
        }
    }

    /// Resolves when the client has closed or reset the connection, or closed its sending half: to
    /// be awaited beside the work on a response. Never resolves once the client has sent ahead as
    /// much as the read buffer holds: the end is then behind unread bytes.
    ///
    /// Safe to cancel. Bytes that arrive are kept for the next request.
    pub async fn peer_closed(&mut self) {
        let bound = self.limits.buffer_bound();
        while !self.peer_closed {
            if self.input.len() >= bound {
                std::future::pending::<()>().await;
            }
            match fill(&mut self.stream, &mut self.input, bound).await {
                Ok(0) | Err(_) => self.peer_closed = true,
                Ok(_) => {}
            }
        }
    }

    /// Closes in a way that lets the client read what it was sent: writes what is left, closes the
    /// sending half, then reads and drops what the client still sends, up to
    /// [`Limits::linger_bytes`] and [`Timeouts::linger`], until it closes too (RFC 9112 §9.6).
    ///
    /// Failures end it early: there is no client left.
    pub async fn close(mut self) {
        let unfinished = self.exchange.as_ref().is_some_and(|exchange| exchange.body.is_some());
        if unfinished || self.flush().await.is_err() {
            return;
        }
        let deadline = deadline(self.timeouts.linger);
        let _ = timeout_at(deadline, async {
            if self.stream.shutdown().await.is_err() || self.peer_closed {
                return;
            }
            let mut left = self.limits.linger_bytes;
            while left > 0 {
                self.input.clear();
                match fill(&mut self.stream, &mut self.input, left).await {
                    Ok(0) | Err(_) => return,
                    Ok(bytes) => left = left.saturating_sub(bytes),
                }
            }
        })
        .await;
    }
}

/// The time `after` from now; a far one if that cannot be represented.
fn deadline(after: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    Instant::now() + after.min(FAR)
}

/// A duration for the text of an error, in whole milliseconds.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
