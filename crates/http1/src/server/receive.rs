//! Reads whole requests.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};

use super::{Connection, Exchange, Request, ServerError, deadline, millis};
use crate::body::{BodyDecoder, Decoded};
use crate::framing::Framing;
use crate::io::fill;
use crate::reject::Reject;
use crate::request::{RequestHead, parse_request};

/// How far the next request has come. Kept in the connection, so that waiting for a request can be
/// cancelled and taken up again.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    /// When the wait for a first byte ends.
    idle_deadline: Option<Instant>,
    /// When the wait for the end of the head ends; set at its first byte.
    head_deadline: Option<Instant>,
    /// A head whose body has not ended.
    partial: Option<Box<Partial>>,
    /// The next answer is the last one.
    pub(super) last: bool,
}

#[derive(Debug)]
struct Partial {
    head: RequestHead,
    decoder: BodyDecoder,
    body: Collected,
    deadline: Instant,
}

/// A body as it arrives: as long as it is one piece, it is not copied.
#[derive(Debug, Default)]
struct Collected {
    first: Bytes,
    rest: BytesMut,
}

impl Receiving {
    /// True before the first byte of a request.
    pub(super) fn is_idle(&self) -> bool {
        self.partial.is_none()
    }
}

impl Collected {
    /// Adds a piece; false if the body would get longer than `limit`.
    fn push(&mut self, data: Bytes, limit: usize) -> bool {
        let length = self.first.len().max(self.rest.len());
        if data.len() > limit.saturating_sub(length) {
            return false;
        }
        if length == 0 {
            self.first = data;
        } else {
            if self.rest.is_empty() {
                self.rest.extend_from_slice(&self.first);
                self.first = Bytes::new();
            }
            self.rest.extend_from_slice(&data);
        }
        true
    }

    fn finish(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { self.rest.freeze() }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Waits for the next request and reads it to the end of its body, so that a slow client never
    /// holds what answers it. `100 Continue` is sent if the client waits for it (RFC 9110 §10.1.1).
    ///
    /// `None` if no request follows: the client closed between requests, or sent nothing for
    /// [`Timeouts::idle`](crate::Timeouts::idle), or the last answer said that it was the last.
    /// Pipelined requests come out one by one, in order (RFC 9112 §9.3.2).
    ///
    /// Safe to cancel: the next call goes on where this one was, with the deadlines that it had.
    ///
    /// # Errors
    ///
    /// [`ServerError::Reject`] for a request that is to be refused, deadlines included: answer it
    /// with [`Connection::reject`]. [`ServerError::HalfRequest`] and [`ServerError::Io`] if the
    /// client has gone. [`ServerError::OutOfOrder`] if the request before it is not yet answered.
    pub async fn next_request(&mut self) -> Result<Option<Request>, ServerError> {
        if self.exchange.is_some() {
            return Err(ServerError::OutOfOrder("the last request is not answered"));
        }
        if self.closing {
            return Ok(None);
        }
        let received = self.receive().await;
        match &received {
            Ok(Some(request)) => {
                self.exchange = Some(Exchange {
                    is_head: request.head.is_head(),
                    version: request.head.version(),
                    keep_alive: request.head.keep_alive() && !self.receiving.last,
                    body: None,
                });
            }
            _ => self.closing = true,
        }
        received
    }

    async fn receive(&mut self) -> Result<Option<Request>, ServerError> {
        if self.receiving.partial.is_none() {
            let Some(head) = self.receive_head().await? else { return Ok(None) };
            if head.framing() == Framing::Empty {
                return Ok(Some(Request { head, body: Bytes::new() }));
            }
            if head.expects_continue() && self.input.is_empty() {
                self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            self.receiving.partial = Some(Box::new(Partial {
                decoder: BodyDecoder::new(head.framing(), &self.limits),
                head,
                body: Collected::default(),
                deadline: deadline(self.timeouts.body),
            }));
        }
        self.flush().await?;
        self.receive_body().await
    }

    /// The next head; `None` if there is none.
    async fn receive_head(&mut self) -> Result<Option<RequestHead>, ServerError> {
        let bound = self.limits.buffer_bound();
        loop {
            if let Some(head) = parse_request(&mut self.input, &self.limits)? {
                self.receiving.idle_deadline = None;
                self.receiving.head_deadline = None;
                return Ok(Some(head));
            }
            let idle = self.input.is_empty();
            if self.peer_closed {
                return if idle { Ok(None) } else { Err(ServerError::HalfRequest) };
            }
            let until = if idle {
                // An empty line before a request is not the start of one.
                self.receiving.head_deadline = None;
                let idle_deadline = &mut self.receiving.idle_deadline;
                *idle_deadline.get_or_insert_with(|| deadline(self.timeouts.idle))
            } else {
                let head_deadline = &mut self.receiving.head_deadline;
                *head_deadline.get_or_insert_with(|| deadline(self.timeouts.head))
            };
            match timeout_at(until, fill(&mut self.stream, &mut self.input, bound)).await {
                Ok(Ok(0)) => self.peer_closed = true,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    self.peer_closed = true;
                    return if idle && is_reset(&error) { Ok(None) } else { Err(error.into()) };
                }
                Err(_) if idle => return Ok(None),
                Err(_) => {
                    let limit_ms = millis(self.timeouts.head);
                    return Err(Reject::HeadTimeout { limit_ms }.into());
                }
            }
        }
    }

    /// The body of the head that is kept in `receiving`.
    async fn receive_body(&mut self) -> Result<Option<Request>, ServerError> {
        let (bound, limit) = (self.limits.buffer_bound(), self.limits.body_bytes);
        while let Some(partial) = &mut self.receiving.partial {
            match partial.decoder.decode(&mut self.input).map_err(Reject::Body)? {
                Decoded::Data(data) => {
                    if !partial.body.push(data, limit) {
                        return Err(Reject::BodyTooLarge { limit }.into());
                    }
                    continue;
                }
                Decoded::End => break,
                Decoded::NeedMore if self.peer_closed => return Err(ServerError::HalfRequest),
                Decoded::NeedMore => {}
            }
            let filled = fill(&mut self.stream, &mut self.input, bound);
            match timeout_at(partial.deadline, filled).await {
                Ok(Ok(0)) => self.peer_closed = true,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    self.peer_closed = true;
                    return Err(error.into());
                }
                Err(_) => {
                    let limit_ms = millis(self.timeouts.body);
                    return Err(Reject::BodyTimeout { limit_ms }.into());
                }
            }
        }
        let partial = self.receiving.partial.take();
        Ok(partial.map(|partial| Request { head: partial.head, body: partial.body.finish() }))
    }
}

/// True if the peer cut the connection, which between requests is as good as closing it.
fn is_reset(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof)
}
