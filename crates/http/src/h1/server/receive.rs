//! Reads the heads and the complete bodies of requests.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::{Connection, Exchange, Request, ServerError, deadline, millis};
use crate::h1::body::{BodyDecoder, Decoded};
use crate::h1::framing::Framing;
use crate::h1::io::{is_reset, poll_fill};
use crate::h1::reject::Reject;
use crate::h1::request::{RequestHead, parse_request};
use crate::pieces::Pieces;

/// How far the next request has come. Kept in the connection, so that waiting for a request can be
/// cancelled and taken up again.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    /// When the wait for a first byte ends.
    idle_deadline: Option<Instant>,
    /// When the wait for the end of the head ends; set at its first byte.
    head_deadline: Option<Instant>,
    /// A head that waits for its body in [`Connection::next_request`].
    head: Option<RequestHead>,
    /// A body that has not ended.
    partial: Option<Box<Partial>>,
    /// The part of the body that [`Connection::read_body`] has read.
    body: Pieces,
    /// The next response is the last one.
    pub(super) last: bool,
}

#[derive(Debug)]
struct Partial {
    expects_continue: bool,
    decoder: BodyDecoder,
    /// Bytes of the body so far.
    received: usize,
    deadline: Instant,
}

impl Receiving {
    /// False while there is a body that has not been read to its end.
    pub(super) fn body_is_read(&self) -> bool {
        self.partial.is_none()
    }
}

impl Partial {
    /// Returns whether the body has at most `limit` bytes, as far as can be seen.
    fn fits(&self, limit: usize) -> bool {
        let most = limit.checked_sub(self.received);
        let announced = usize::try_from(self.decoder.announced());
        most.is_some_and(|most| announced.is_ok_and(|announced| announced <= most))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Waits for the next request and reads all of it, including the body, so that a slow client
    /// never occupies a replica. The body may have up to
    /// [`Limits::body_bytes`](crate::h1::Limits::body_bytes).
    ///
    /// Calls [`next_head`](Connection::next_head) and [`read_body`](Connection::read_body). Their
    /// documentation explains `None`, the errors, and cancellation.
    pub async fn next_request(&mut self) -> Result<Option<Request>, ServerError> {
        if self.receiving.head.is_none() {
            let Some(head) = self.next_head().await? else { return Ok(None) };
            self.receiving.head = Some(head);
        }
        let body = self.read_body(self.limits.body_bytes).await?;
        Ok(self.receiving.head.take().map(|head| Request { head, body }))
    }

    /// Waits for the head of the next request, and leaves its body to
    /// [`read_body`](Connection::read_body). If a response begins before the body has been read, it
    /// is the last one on the connection. A declared length above
    /// [`Limits::body_bytes`](crate::h1::Limits::body_bytes) is rejected here.
    ///
    /// Returns `None` if no request follows: the client closed the connection between requests, or
    /// sent nothing for [`Timeouts::idle`](crate::h1::Timeouts::idle), or the last response announced
    /// the close. Pipelined requests are returned one by one, in order (RFC 9112 §9.3.2).
    ///
    /// This method is cancel safe: the next call continues with the same deadlines.
    pub async fn next_head(&mut self) -> Result<Option<RequestHead>, ServerError> {
        if self.closing {
            return Ok(None);
        }
        if self.exchange.is_some() {
            return Err(ServerError::OutOfOrder("the last request has no response yet"));
        }
        let received = self.receive_head().await;
        match &received {
            Ok(Some(head)) => self.begin_request(head),
            _ => self.closing = true,
        }
        received
    }

    /// Reads the body of the current request, which may have at most `limit` bytes. If the declared
    /// length is greater, rejects the body before any of it is read. Returns an empty body if the
    /// request has none, or if it has already been read. Sends `100 Continue` if the client waits
    /// for it (RFC 9110 §10.1.1).
    ///
    /// This method is cancel safe: the next call continues with the same deadline.
    pub async fn read_body(&mut self, limit: usize) -> Result<Bytes, ServerError> {
        loop {
            match poll_fn(|cx| self.poll_piece(limit, cx)).await? {
                Some(piece) => {
                    self.receiving.body.push(piece, usize::MAX);
                }
                None => return Ok(std::mem::take(&mut self.receiving.body).join()),
            }
        }
    }

    /// Polls for the next piece of the body of the current request, or `None` after its end. Use it
    /// instead of [`read_body`](Connection::read_body) to relay the body while it arrives. The client
    /// must then send each piece within [`Timeouts::body`](crate::h1::Timeouts::body).
    pub fn poll_body(
        &mut self,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ServerError>> {
        let piece = ready!(self.poll_piece(limit, cx));
        if let Some(partial) = &mut self.receiving.partial {
            partial.deadline = deadline(self.timeouts.body);
        }
        Poll::Ready(piece)
    }

    fn poll_piece(
        &mut self,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ServerError>> {
        let piece = ready!(self.poll_decode(limit, cx));
        if piece.is_err() {
            self.closing = true;
            self.receiving.head = None;
        }
        Poll::Ready(piece)
    }

    fn poll_decode(
        &mut self,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ServerError>> {
        while let Some(partial) = &mut self.receiving.partial {
            // A length that is too long is rejected before the client gets `100 Continue`.
            if !partial.fits(limit) {
                return Poll::Ready(Err(Reject::BodyTooLarge(limit).into()));
            }
            if std::mem::take(&mut partial.expects_continue) && self.input.is_empty() {
                self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            let until = partial.deadline;
            match partial.decoder.decode(&mut self.input).map_err(Reject::Body)? {
                Decoded::Data(data) => {
                    partial.received += data.len();
                    if partial.fits(limit) {
                        return Poll::Ready(Ok(Some(data)));
                    }
                    continue;
                }
                Decoded::End => {
                    self.receiving.partial = None;
                    break;
                }
                // A chunk that is too long is rejected once its size is here.
                Decoded::NeedMore if !partial.fits(limit) => continue,
                Decoded::NeedMore if self.peer_closed => {
                    return Poll::Ready(Err(ServerError::IncompleteMessage));
                }
                Decoded::NeedMore => {}
            }
            if !self.output.is_empty() {
                ready!(self.poll_write(cx))?;
            }
            let Some(read) = ready!(self.poll_read_more(until, cx)) else {
                return Poll::Ready(Err(Reject::BodyTimeout(millis(self.timeouts.body)).into()));
            };
            read?;
        }
        Poll::Ready(Ok(None))
    }

    fn begin_request(&mut self, head: &RequestHead) {
        self.exchange = Some(Exchange {
            is_head: head.is_head(),
            version: head.version(),
            keep_alive: head.keep_alive() && !self.receiving.last,
            body: None,
        });
        if head.framing() != Framing::Empty {
            self.receiving.partial = Some(Box::new(Partial {
                expects_continue: head.expects_continue(),
                decoder: BodyDecoder::new(head.framing(), &self.limits),
                received: 0,
                deadline: deadline(self.timeouts.body),
            }));
        }
    }

    /// The next head; `None` if there is none.
    async fn receive_head(&mut self) -> Result<Option<RequestHead>, ServerError> {
        loop {
            if let Some(head) = parse_request(&mut self.input, &self.limits)? {
                self.receiving.idle_deadline = None;
                self.receiving.head_deadline = None;
                return Ok(Some(head));
            }
            let idle = self.input.is_empty();
            if self.peer_closed {
                return if idle { Ok(None) } else { Err(ServerError::IncompleteMessage) };
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
            match self.read_more(until).await {
                Ok(true) => {}
                Ok(false) if idle => return Ok(None),
                Ok(false) => {
                    return Err(Reject::HeadTimeout(millis(self.timeouts.head)).into());
                }
                Err(error) if idle && is_reset(&error) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads once more; false if the time is up.
    async fn read_more(&mut self, until: Instant) -> io::Result<bool> {
        match poll_fn(|cx| self.poll_read_more(until, cx)).await {
            Some(read) => read.map(|_| true),
            None => Ok(false),
        }
    }

    /// Reads once more. Returns `None` if the time is up.
    fn poll_read_more(
        &mut self,
        until: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<usize>>> {
        let bound = self.limits.buffer_bound();
        match poll_fill(&mut self.stream, &mut self.input, bound, cx) {
            Poll::Ready(read) => {
                self.peer_closed |= matches!(read, Ok(0) | Err(_));
                Poll::Ready(Some(read))
            }
            Poll::Pending if self.timer.poll_passed(until, cx) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}
