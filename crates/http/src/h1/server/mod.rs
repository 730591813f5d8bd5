//! The server's side of a connection.
//!
//! Methods, in the order in which they are called:
//!
//! - [`Connection::next_request`] waits for a whole request. If the permitted length of the body
//!   depends on the head, call [`Connection::next_head`] and then [`Connection::read_body`]
//!   instead;
//! - [`Connection::peer_closed`] waits for the client to disconnect while you prepare the response;
//! - [`Connection::respond`] sends a whole response. To send it in parts, call
//!   [`Connection::start_response`], [`Connection::write_body`] any number of times, and
//!   [`Connection::finish_body`]. After a [`ServerError::Reject`], call [`Connection::reject`]
//!   instead;
//! - [`Connection::close`] closes the connection so that the client receives the last response
//!   instead of a reset.
//!
//! Dropping a connection in the middle of a response shows the client that the response is
//! incomplete.

mod receive;
mod respond;

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use crate::h1::framing::Version;
use crate::h1::header_lines::WriteError;
use crate::h1::io::{fill, poll_fill};
use crate::h1::limits::{Limits, Timeouts};
use crate::h1::reject::Reject;
use crate::h1::request::RequestHead;
use crate::timer::Timer;

/// Why a [`Connection`] serves no further request.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The request is rejected. Call [`Connection::reject`] to respond.
    #[error(transparent)]
    Reject(#[from] Reject),
    /// The client closed the connection in the middle of a request, so no response is needed.
    #[error("the client closed the connection during a request")]
    IncompleteMessage,
    /// The client did not read its response within
    /// [`Timeouts::write`](crate::h1::Timeouts::write).
    #[error("the client did not read its response within {0} ms")]
    WriteTimeout(u64),
    /// The transport failed.
    #[error("transport: {0}")]
    Io(#[from] io::Error),
    /// The caller passed a head that cannot be sent. No part of it was sent, so the caller may try
    /// another response.
    #[error("response: {0}")]
    Write(#[from] WriteError),
    /// The body from the caller does not have the announced length.
    #[error("the length of the response body is not the announced one")]
    BodyLength,
    /// The caller made calls in the wrong order: a response without a request, or a request before
    /// the previous response was finished.
    #[error("called out of order: {0}")]
    OutOfOrder(&'static str),
}

/// A complete request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method, target and fields.
    pub head: RequestHead,
    /// The body, without its framing. Empty if there is none.
    pub body: Bytes,
}

/// A connection to a client, over any byte stream.
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
    timer: Timer,
    /// The request that is being read or answered.
    exchange: Option<Exchange>,
    /// No further request is served.
    closing: bool,
    /// The client closed its side, or the transport failed.
    peer_closed: bool,
}

/// What remains of a connection that switches to another protocol.
#[derive(Debug)]
pub struct Parts<S> {
    /// The stream.
    pub stream: S,
    /// The bytes that were read from it and not yet used.
    pub read: Bytes,
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
    /// Creates a connection over a stream that was just accepted.
    pub fn new(stream: S, limits: Limits, timeouts: Timeouts) -> Connection<S> {
        Connection {
            stream,
            limits,
            timeouts,
            input: BytesMut::new(),
            output: BytesMut::new(),
            receiving: receive::Receiving::default(),
            timer: Timer::default(),
            exchange: None,
            closing: false,
            peer_closed: false,
        }
    }

    /// Returns the stream, for its addresses and options.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Returns whether the client has sent the preface of HTTP/2 (RFC 9113 §3.4) instead of a request.
    /// Call it after [`next_head`](Connection::next_head) has rejected the request.
    pub fn is_http2(&self) -> bool {
        self.exchange.is_none() && self.input.starts_with(b"PRI * HTTP/2.0\r\n\r\n")
    }

    /// Returns the stream, and the bytes that were read from it and not yet used.
    pub fn into_parts(self) -> Parts<S> {
        Parts { stream: self.stream, read: self.input.freeze() }
    }

    /// Returns whether no byte of the next request has arrived. If so, closing the connection now
    /// loses nothing. A server that shuts down closes its idle connections and lets the others
    /// finish.
    pub fn is_idle(&self) -> bool {
        self.exchange.is_none() && self.input.is_empty() && self.receiving.body_is_read()
    }

    /// Returns whether the connection will serve no further request.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Makes the response to the current or next request the last one. That response has
    /// `Connection: close`.
    pub fn close_after_response(&mut self) {
        self.receiving.last = true;
        if let Some(exchange) = &mut self.exchange {
            exchange.keep_alive = false;
        }
    }

    /// Resolves when the client has closed or reset the connection, or closed its sending half.
    /// Await it while the response is being prepared. If the client has already sent more bytes
    /// than the read buffer holds, the future never resolves, because the end of the stream comes
    /// after bytes that are still unread.
    ///
    /// Cancel safe. Bytes that arrive are kept for the next request.
    pub async fn peer_closed(&mut self) {
        poll_fn(|cx| self.poll_peer_closed(cx)).await;
    }

    /// Polls for the end of the connection, as [`peer_closed`](Connection::peer_closed) does.
    pub fn poll_peer_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let bound = self.limits.buffer_bound();
        while !self.peer_closed {
            if self.input.len() >= bound {
                return Poll::Pending;
            }
            match ready!(poll_fill(&mut self.stream, &mut self.input, bound, cx)) {
                Ok(0) | Err(_) => self.peer_closed = true,
                Ok(_) => {}
            }
        }
        Poll::Ready(())
    }

    /// Closes the connection so that the client can read everything that was sent. Writes the
    /// remaining output and closes the sending half. Then reads and drops the bytes that the client
    /// still sends, up to [`Limits::linger_bytes`] and [`Timeouts::linger`], until the client also
    /// closes the connection (RFC 9112 §9.6).
    ///
    /// Stops at the first error, which means that the client has left.
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
pub(crate) fn deadline(after: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    Instant::now() + after.min(FAR)
}

/// A duration for the text of an error, in whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
