//! Writes responses.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Connection, Exchange, ServerError, deadline, millis};
use crate::h1::framing::Version;
use crate::h1::header_lines::{HeaderLines, WriteError};
use crate::h1::reject::Reject;
use crate::h1::write::{
    BodyLength, LAST_CHUNK, Persistence, reason_phrase, write_chunk_line, write_response_head,
};

/// Data up to this size is copied behind what is already rendered, in bytes, so that it all leaves
/// in one write; larger data is written from where it is.
const COPY_BYTES: usize = 4 << 10;

/// Maximum number of buffers that are passed to one write.
const SLICES_MAX: usize = 16;

const NOTHING: &[u8] = b"";

/// The body that a response still owes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// The response has no body; what the caller gives is dropped.
    Muted,
    /// Bytes left.
    Known(u64),
    Chunked,
    UntilClose,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Responds to the current request with a complete body. No body is sent in response to HEAD,
    /// or with the statuses 204 and 304.
    ///
    /// This method writes `Content-Length` and `Connection`: see [`write_response_head`] for the
    /// fields that are skipped.
    pub async fn respond(
        &mut self,
        status: u16,
        headers: impl HeaderLines,
        body: &[u8],
    ) -> Result<(), ServerError> {
        // The length of a response that was left out for 304 is not that of the body at hand.
        let length =
            if status == 304 { BodyLength::None } else { BodyLength::Known(body.len() as u64) };
        let outgoing = self.begin(status, headers, length)?;
        let body = if outgoing == Outgoing::Muted { NOTHING } else { body };
        self.send(body, b"").await?;
        self.end();
        Ok(())
    }

    /// Begins the response to the current request. [`write_body`](Connection::write_body) and
    /// [`finish_body`](Connection::finish_body) send its body. The head is sent with the first
    /// bytes of the body, or immediately by [`flush`](Connection::flush).
    ///
    /// In HTTP/1.0, [`BodyLength::Chunked`] becomes [`BodyLength::UntilClose`] (RFC 9112 §6.1). A
    /// client cannot detect that such a response is incomplete, so prefer `Known`.
    pub fn start_response(
        &mut self,
        status: u16,
        headers: impl HeaderLines,
        length: BodyLength,
    ) -> Result<(), ServerError> {
        self.begin(status, headers, length).map(|_| ())
    }

    /// Responds with `101 Switching Protocols`. The headers include `Upgrade`. Afterwards, call
    /// [`flush`](Connection::flush) and [`into_parts`](Connection::into_parts).
    pub fn switch_protocols(&mut self, headers: impl HeaderLines) -> Result<(), ServerError> {
        if self.exchange.take().is_none_or(|exchange| exchange.body.is_some()) {
            return Err(ServerError::OutOfOrder("there is no request to respond to"));
        }
        self.closing = true;
        let (length, persistence) = (BodyLength::None, Persistence::Upgrade);
        Ok(write_response_head(&mut self.output, 101, headers, length, persistence)?)
    }

    /// Sends a part of the body, after [`start_response`](Connection::start_response). Returns when
    /// the transport has accepted it. Fails if that takes longer than
    /// [`Timeouts::write`](crate::h1::Timeouts::write).
    pub async fn write_body(&mut self, data: impl Buf) -> Result<(), ServerError> {
        let outgoing = self.outgoing()?;
        let length = data.remaining();
        if length == 0 {
            return Ok(());
        }
        match outgoing {
            Outgoing::Muted => Ok(()),
            Outgoing::UntilClose => self.send(data, b"").await,
            Outgoing::Chunked => {
                write_chunk_line(&mut self.output, length);
                self.send(data, b"\r\n").await
            }
            Outgoing::Known(left) => {
                let left = left.checked_sub(length as u64).ok_or(ServerError::BodyLength)?;
                if let Some(exchange) = &mut self.exchange {
                    exchange.body = Some(Outgoing::Known(left));
                }
                self.send(data, b"").await
            }
        }
    }

    /// Ends the body, after [`start_response`](Connection::start_response).
    pub async fn finish_body(&mut self) -> Result<(), ServerError> {
        match self.outgoing()? {
            Outgoing::Known(left) if left > 0 => {
                self.closing = true;
                return Err(ServerError::BodyLength);
            }
            Outgoing::Chunked => self.send(NOTHING, LAST_CHUNK).await?,
            Outgoing::Muted | Outgoing::Known(_) | Outgoing::UntilClose => self.flush().await?,
        }
        self.end();
        Ok(())
    }

    /// Sends the rendered output, such as a head whose body will follow much later.
    pub async fn flush(&mut self) -> Result<(), ServerError> {
        if self.output.is_empty() { Ok(()) } else { self.send(NOTHING, NOTHING).await }
    }

    /// Responds to a rejected request with the status that matches the reason, `Connection: close`,
    /// and a one-line explanation. Call [`close`](Connection::close) afterwards.
    pub async fn reject(&mut self, reject: &Reject) -> Result<(), ServerError> {
        if self.exchange.as_ref().is_some_and(|exchange| exchange.body.is_some()) {
            return Err(ServerError::OutOfOrder("the response has begun"));
        }
        let text = format!("{}: {reject}\n", reason_phrase(reject.status()));
        self.closing = true;
        self.exchange = None;
        write_response_head(
            &mut self.output,
            reject.status(),
            [("content-type", "text/plain; charset=utf-8")],
            BodyLength::Known(text.len() as u64),
            Persistence::Close,
        )?;
        self.send(text.as_bytes(), b"").await
    }

    /// Renders the head of a response and notes what body it owes.
    fn begin(
        &mut self,
        status: u16,
        headers: impl HeaderLines,
        length: BodyLength,
    ) -> Result<Outgoing, ServerError> {
        let exchange = match &mut self.exchange {
            None => return Err(ServerError::OutOfOrder("there is no request to respond to")),
            Some(Exchange { body: Some(_), .. }) => {
                return Err(ServerError::OutOfOrder("the response has begun"));
            }
            Some(exchange) => exchange,
        };
        if status < 200 {
            return Err(WriteError::Status(status).into());
        }
        let length = match (length, exchange.version) {
            (BodyLength::Chunked, Version::Http10) => BodyLength::UntilClose,
            (length, _) => length,
        };
        let outgoing = match length {
            _ if exchange.is_head || status == 204 || status == 304 => Outgoing::Muted,
            // A body must have an end, so none at all is announced as one of no bytes.
            BodyLength::None => Outgoing::Known(0),
            BodyLength::Known(bytes) => Outgoing::Known(bytes),
            BodyLength::Chunked => Outgoing::Chunked,
            BodyLength::UntilClose => Outgoing::UntilClose,
        };
        let length = if outgoing == Outgoing::Known(0) { BodyLength::Known(0) } else { length };
        // An unread body stands where the next request would.
        let keep_alive = exchange.keep_alive
            && outgoing != Outgoing::UntilClose
            && self.receiving.body_is_read();
        let persistence = match (keep_alive, exchange.version) {
            (false, _) => Persistence::Close,
            (true, Version::Http10) => Persistence::KeepAlive,
            (true, _) => Persistence::Default,
        };
        write_response_head(&mut self.output, status, headers, length, persistence)?;
        exchange.keep_alive = keep_alive;
        exchange.body = Some(outgoing);
        Ok(outgoing)
    }

    fn outgoing(&self) -> Result<Outgoing, ServerError> {
        self.exchange
            .as_ref()
            .and_then(|exchange| exchange.body)
            .ok_or(ServerError::OutOfOrder("no response has begun"))
    }

    /// The response is complete.
    fn end(&mut self) {
        self.closing |= self.exchange.take().is_none_or(|exchange| !exchange.keep_alive);
    }

    /// Writes what is rendered, then `data` and `tail`, in as few writes as it takes.
    async fn send(&mut self, data: impl Buf, tail: &[u8]) -> Result<(), ServerError> {
        let written = if data.remaining() <= COPY_BYTES {
            self.output.put(data);
            self.output.extend_from_slice(tail);
            self.write(&mut &NOTHING[..]).await
        } else {
            self.write(&mut data.chain(tail)).await
        };
        let failure = match written {
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) => ServerError::Io(error),
            None => ServerError::WriteTimeout(millis(self.timeouts.write)),
        };
        // Whatever was cut short here, nothing can follow it.
        self.closing = true;
        self.peer_closed = true;
        self.output.clear();
        Err(failure)
    }

    /// Writes what is rendered, then `rest`. Returns `None` if it takes too long. What was written is
    /// taken off even if this is cancelled.
    async fn write(&mut self, rest: &mut impl Buf) -> Option<io::Result<()>> {
        let mut until = None;
        poll_fn(|cx| {
            let written = poll_write_all(&mut self.stream, &mut self.output, rest, cx);
            if written.is_ready() {
                return written.map(Some);
            }
            let until = *until.get_or_insert_with(|| deadline(self.timeouts.write));
            if self.timer.poll_passed(until, cx) { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }
}

impl<S: AsyncWrite + Unpin> Connection<S> {
    /// Writes what is rendered.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_write_all(&mut self.stream, &mut self.output, &mut &NOTHING[..], cx)
    }
}

/// Writes all of `output` and `rest`, and takes off what was written.
fn poll_write_all<S: AsyncWrite + Unpin>(
    stream: &mut S,
    output: &mut BytesMut,
    rest: &mut impl Buf,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    let mut stream = Pin::new(stream);
    while !output.is_empty() || rest.has_remaining() {
        let written = if !rest.has_remaining() {
            ready!(stream.as_mut().poll_write(cx, &output[..]))?
        } else if stream.is_write_vectored() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let whole = (&mut *output).chain(&mut *rest);
            let count = whole.chunks_vectored(&mut slices);
            ready!(stream.as_mut().poll_write_vectored(cx, &slices[..count]))?
        } else {
            let chunk = if output.is_empty() { rest.chunk() } else { &output[..] };
            ready!(stream.as_mut().poll_write(cx, chunk))?
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        if written < output.len() {
            output.advance(written);
        } else {
            rest.advance(written - output.len());
            // Unlike `advance`, this keeps the room for the next response.
            output.clear();
        }
    }
    stream.poll_flush(cx)
}
