//! One request of an HTTP/2 connection, at the server.
//!
//! The methods and their order are those of [`crate::h1::server::Connection`], so that the same code
//! serves both versions. Dropping an exchange before its response has ended resets the stream.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use tokio::time::Instant;

use super::tunnel::{Tunnel, failed};
use super::{GRPC, poll_room, to_response};
use crate::h1::server::{ServerError, deadline, millis};
use crate::h1::{BodyLength, HeaderLines, Limits, Reject, RequestHead, Timeouts};
use crate::pieces::Pieces;
use crate::timer::Timer;

/// The largest part of a body that is handed to the connection at once, in bytes. A connection
/// buffers that much for each stream.
const PIECE_BYTES: usize = 16 << 10;

/// A request, and the means to respond to it.
#[derive(Debug)]
pub struct Exchange {
    /// `None` if there is no body, or if it was taken.
    body: Option<RecvStream>,
    /// Bytes of the body so far.
    received: usize,
    body_deadline: Instant,
    timer: Timer,
    /// The client waits for `100 Continue` before it sends the body (RFC 9110 §10.1.1).
    expects_continue: bool,
    response: Response,
    is_head: bool,
    is_grpc: bool,
    timeouts: Timeouts,
}

#[derive(Debug)]
enum Response {
    Waits(SendResponse<Bytes>),
    /// The body may still be sent.
    Begun(SendStream<Bytes>),
    Over,
}

/// A request from an HTTP/2 connection.
#[derive(Debug)]
pub struct Accepted {
    /// The means to respond to it.
    pub exchange: Exchange,
    /// Its head, or the reason why it is invalid. The exchange can send a response in both cases.
    pub head: Result<RequestHead, Reject>,
}

impl Accepted {
    /// Takes a request from an HTTP/2 connection.
    pub fn new(
        request: http::Request<RecvStream>,
        respond: SendResponse<Bytes>,
        limits: &Limits,
        timeouts: Timeouts,
    ) -> Self {
        let (parts, body) = request.into_parts();
        let ends = body.is_end_stream();
        let head = super::request_head(&parts, ends, limits);
        let is_head = parts.method == http::Method::HEAD;
        let kind = parts.headers.get(CONTENT_TYPE);
        let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(GRPC));
        let response = Response::Waits(respond);
        let expected = parts.headers.get(http::header::EXPECT);
        let expects_continue =
            expected.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        let body = (!ends).then_some(body);
        let exchange = Exchange {
            body,
            received: 0,
            body_deadline: deadline(timeouts.body),
            timer: Timer::default(),
            expects_continue,
            response,
            is_head,
            is_grpc,
            timeouts,
        };
        Self { exchange, head }
    }
}

impl Exchange {
    /// Returns whether the client expects a response of gRPC.
    pub fn is_grpc(&self) -> bool {
        self.is_grpc
    }

    /// Reads the body of the request, which may have at most `limit` bytes.
    pub async fn read_body(&mut self, limit: usize) -> Result<Bytes, ServerError> {
        let mut pieces = Pieces::default();
        while let Some(piece) = poll_fn(|context| self.poll_piece(limit, context)).await? {
            pieces.push(piece, usize::MAX);
        }
        Ok(pieces.join())
    }

    /// Polls for the next piece of the body, or `None` after its end. Use it instead of
    /// [`read_body`](Exchange::read_body) to relay the body while it arrives. The client must then
    /// send each piece within [`Timeouts::body`](crate::h1::Timeouts::body).
    pub fn poll_body(
        &mut self,
        limit: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ServerError>> {
        let piece = ready!(self.poll_piece(limit, context));
        self.body_deadline = deadline(self.timeouts.body);
        Poll::Ready(piece)
    }

    fn poll_piece(
        &mut self,
        limit: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ServerError>> {
        self.send_continue();
        let Some(body) = &mut self.body else { return Poll::Ready(Ok(None)) };
        let Poll::Ready(data) = body.poll_data(context) else {
            if self.timer.poll_passed(self.body_deadline, context) {
                return Poll::Ready(Err(Reject::BodyTimeout(millis(self.timeouts.body)).into()));
            }
            return Poll::Pending;
        };
        let data = data.transpose().map_err(|_| ServerError::IncompleteMessage)?;
        let Some(data) = data else {
            self.body = None;
            return Poll::Ready(Ok(None));
        };
        // A stream that has ended needs no more capacity.
        let _ = body.flow_control().release_capacity(data.len());
        self.received += data.len();
        if self.received > limit {
            return Poll::Ready(Err(Reject::BodyTooLarge(limit).into()));
        }
        Poll::Ready(Ok(Some(data)))
    }

    /// Takes the body of the request, to relay it while it arrives. Returns `None` if there is none.
    pub fn take_body(&mut self) -> Option<RecvStream> {
        self.send_continue();
        self.body.take()
    }

    fn send_continue(&mut self) {
        let expected = std::mem::take(&mut self.expects_continue) && self.body.is_some();
        if let (true, Response::Waits(respond)) = (expected, &mut self.response) {
            let mut interim = http::Response::new(());
            *interim.status_mut() = http::StatusCode::CONTINUE;
            // If it fails, the client has left, which the read of the body reports.
            let _ = respond.send_informational(interim);
        }
    }

    /// Resolves when the client has reset the stream, or when the connection has ended. Cancel safe.
    pub async fn peer_closed(&mut self) {
        poll_fn(|context| self.poll_peer_closed(context)).await;
    }

    /// Polls for the end, as [`peer_closed`](Exchange::peer_closed) does.
    pub fn poll_peer_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.response {
            Response::Waits(respond) => respond.poll_reset(context).map(|_| ()),
            Response::Begun(body) => body.poll_reset(context).map(|_| ()),
            Response::Over => Poll::Pending,
        }
    }

    /// Begins the response, and sends its head. No body is sent in response to HEAD, or with the
    /// statuses 204 and 304.
    pub fn start_response(
        &mut self,
        status: u16,
        headers: impl HeaderLines,
        length: BodyLength,
    ) -> Result<(), ServerError> {
        let Response::Waits(respond) = &mut self.response else {
            return Err(ServerError::OutOfOrder("the response has begun"));
        };
        let length = match length {
            BodyLength::Known(bytes) if status != 304 => Some(bytes),
            _ => None,
        };
        let head = to_response(status, headers, length)?;
        let muted = self.is_head || status == 204 || status == 304;
        let ends = muted || length == Some(0);
        let body = respond.send_response(head, ends).map_err(failed)?;
        self.response = if ends { Response::Over } else { Response::Begun(body) };
        Ok(())
    }

    /// Sends the whole body, after [`start_response`](Exchange::start_response), and ends the
    /// response.
    pub async fn send_whole(&mut self, body: impl Buf) -> Result<(), ServerError> {
        self.write(body, true).await
    }

    /// Sends a part of the body. Returns when the connection has accepted it.
    pub async fn write_body(&mut self, data: impl Buf) -> Result<(), ServerError> {
        self.write(data, false).await
    }

    async fn write(&mut self, mut data: impl Buf, ends: bool) -> Result<(), ServerError> {
        let mut until = None;
        poll_fn(|context| {
            let Response::Begun(body) = &mut self.response else { return Poll::Ready(Ok(())) };
            while data.has_remaining() {
                let wanted = data.remaining().min(PIECE_BYTES);
                let Poll::Ready(room) = poll_room(body, wanted, context) else {
                    // Most writes never wait, so they do not read the clock.
                    let until = *until.get_or_insert_with(|| deadline(self.timeouts.write));
                    if self.timer.poll_passed(until, context) {
                        let late = ServerError::WriteTimeout(millis(self.timeouts.write));
                        return Poll::Ready(Err(late));
                    }
                    return Poll::Pending;
                };
                let part = data.copy_to_bytes(room.ok_or(ServerError::IncompleteMessage)?);
                body.send_data(part, ends && !data.has_remaining()).map_err(failed)?;
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        if ends {
            self.response = Response::Over;
        }
        Ok(())
    }

    /// Ends the response.
    pub async fn finish_body(&mut self, trailers: Option<HeaderMap>) -> Result<(), ServerError> {
        if let Response::Begun(body) = &mut self.response {
            match trailers {
                Some(trailers) => body.send_trailers(trailers).map_err(failed)?,
                None => body.send_data(Bytes::new(), true).map_err(failed)?,
            }
            self.response = Response::Over;
        }
        Ok(())
    }

    /// Returns the stream as a tunnel, after a response with a body was begun for a client that
    /// requested a protocol.
    pub fn into_tunnel(self) -> Option<Tunnel> {
        let Response::Begun(sending) = self.response else { return None };
        Some(Tunnel::new(self.body, sending))
    }

    /// Resets the stream, so that the client sees that its response is incomplete.
    pub fn reset(&mut self) {
        match &mut self.response {
            Response::Waits(respond) => respond.send_reset(Reason::INTERNAL_ERROR),
            Response::Begun(body) => body.send_reset(Reason::INTERNAL_ERROR),
            Response::Over => {}
        }
    }
}
