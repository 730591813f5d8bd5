//! The client's side of a connection.
//!
//! Methods, in the order in which they are called:
//!
//! - [`Connection::send`] sends a request and returns the head of its response. To send the body
//!   while it arrives, call [`Connection::start`], and then, concurrently,
//!   [`Connection::poll_head`] and [`Connection::poll_room`], [`Connection::send_body`] and
//!   [`Connection::end_body`];
//! - [`Connection::body`] returns the body piece by piece, then `None`. [`Connection::body_all`]
//!   returns the whole body instead;
//! - [`Connection::reusable`] returns whether the connection can be kept;
//! - [`Connection::is_stale`] returns whether a kept connection can no longer be used.
//!
//! There are no timeouts: the caller adds them. After an error, or after the cancellation of a
//! call, drop the connection. Only [`Connection::body`] may be cancelled.

mod transport;

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::h1::body::{BodyDecoder, Decoded};
use crate::h1::io::{is_reset, poll_fill};
use crate::h1::limits::Limits;
use crate::h1::response::{BadResponse, ResponseHead, parse_response};
use crate::pieces::Pieces;

use transport::Transport;

/// Most interim responses (1xx) that are read before one response.
const INTERIM_MAX: usize = 16;

/// Why there is no complete response. The connection can no longer be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server closed or reset the connection before the first byte of a response. A connection
    /// that was used before may simply have been idle for too long.
    #[error("the server closed the connection before it responded")]
    Closed,
    /// The connection was closed before the first byte of the request was sent.
    #[error("the connection was closed before the request was sent")]
    Unsent,
    /// The server closed or reset the connection in the middle of its response.
    #[error("the server closed the connection during its response")]
    IncompleteMessage,
    /// The bytes of the server are not a valid response.
    #[error(transparent)]
    Parse(#[from] BadResponse),
    /// The body is longer than the caller permits.
    #[error("body of the response longer than {0} bytes")]
    TooLarge(usize),
    /// The transport failed in another way.
    #[error("transport: {0}")]
    Io(#[from] io::Error),
    /// The caller sent a request on a connection that is not [`reusable`](Connection::reusable).
    #[error("the connection cannot carry another request")]
    NotReusable,
}

impl ClientError {
    /// The meaning of a failed read: a reset is an end, and ends are distinguished by whether the
    /// response had begun.
    fn from_read(error: io::Error, begun: bool) -> ClientError {
        if is_reset(&error) { ClientError::end(begun) } else { ClientError::Io(error) }
    }

    /// The meaning of the end of the connection.
    fn end(begun: bool) -> ClientError {
        if begun { ClientError::IncompleteMessage } else { ClientError::Closed }
    }
}

/// A connection to a server, over any byte stream. Small, so that moving it is cheap.
#[derive(Debug)]
pub struct Connection<S>(Box<Inner<S>>);

#[derive(Debug)]
struct Inner<S> {
    transport: Transport<S>,
    limits: Limits,
    /// Received and not yet parsed; at most `limits.buffer_bound()` bytes.
    input: BytesMut,
    state: State,
    /// The last response lets the connection live on.
    keep_alive: bool,
    /// The body of the request has not ended.
    is_sending: bool,
}

#[derive(Debug)]
enum State {
    /// No request is under way.
    Idle,
    /// A request was sent, or begun to be.
    Waiting(Waiting),
    /// The head of a response was read.
    Body(BodyDecoder),
    /// The server has switched to another protocol.
    Tunnel,
    /// The connection is of no further use.
    Broken,
}

#[derive(Debug)]
struct Waiting {
    is_head: bool,
    /// Bytes of the response have arrived.
    begun: bool,
    /// The number of interim responses.
    interim: usize,
    /// The request asks for another protocol.
    upgrades: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Creates a connection over a stream that was just opened.
    pub fn new(stream: S, limits: Limits) -> Connection<S> {
        Connection(Box::new(Inner {
            transport: Transport::new(stream),
            limits,
            input: BytesMut::new(),
            state: State::Idle,
            keep_alive: true,
            is_sending: false,
        }))
    }

    /// Returns the stream, for its addresses and options.
    pub fn stream(&self) -> &S {
        self.0.transport.stream()
    }

    /// Returns the stream, to move it to another runtime. Reading from it or writing to it would
    /// break a connection that is not a tunnel.
    pub fn stream_mut(&mut self) -> &mut S {
        self.0.transport.stream_mut()
    }

    /// Sends a request and reads the head of its response. [`write_request`](crate::h1::write_request)
    /// renders the bytes to send. Interim responses (1xx) are skipped. `is_head` states whether the
    /// method is HEAD.
    ///
    /// If the server responds before the whole request is sent, returns that response. The rest of
    /// the request is then sent while the body is read.
    pub async fn send(
        &mut self,
        request: &[u8],
        is_head: bool,
    ) -> Result<ResponseHead, ClientError> {
        self.start(request, is_head).await?;
        self.end_body();
        poll_fn(|cx| self.poll_head(cx)).await
    }

    /// Sends a request whose body comes later.
    pub async fn start(&mut self, request: &[u8], is_head: bool) -> Result<(), ClientError> {
        if !self.reusable() {
            return Err(ClientError::NotReusable);
        }
        if !self.0.transport.start(request).await {
            self.0.state = State::Broken;
            return Err(ClientError::Unsent);
        }
        self.0.state =
            State::Waiting(Waiting { is_head, begun: false, interim: 0, upgrades: false });
        self.0.is_sending = true;
        Ok(())
    }

    /// Permits the response to the request that was started to be `101 Switching Protocols`. The
    /// connection is then a tunnel: use [`stream_mut`](Connection::stream_mut) for what follows
    /// [`take_buffered`](Connection::take_buffered).
    pub fn permit_upgrade(&mut self) {
        if let State::Waiting(waiting) = &mut self.0.state {
            waiting.upgrades = true;
        }
    }

    /// Returns whether the server has switched to another protocol.
    pub fn is_tunnel(&self) -> bool {
        matches!(self.0.state, State::Tunnel)
    }

    /// Takes the bytes that have been received and not yet returned.
    pub fn take_buffered(&mut self) -> Bytes {
        self.0.input.split().freeze()
    }

    /// Polls for the head of the response, and sends the rest of the request meanwhile.
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, ClientError>> {
        let head = ready!(self.poll_read_head(cx));
        self.0.state = match &head {
            Ok(head) if head.status() == 101 => State::Tunnel,
            Ok(head) => State::Body(BodyDecoder::new(head.framing(), &self.0.limits)),
            Err(_) => State::Broken,
        };
        let head = head?;
        self.0.keep_alive = head.keep_alive();
        self.end_if_done();
        Poll::Ready(Ok(head))
    }

    /// Returns whether the server still reads the request, as soon as everything so far was written.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.0.transport.poll_room(cx)
    }

    /// Sends bytes of the body, with their framing. Call it after [`poll_room`](Connection::poll_room)
    /// has returned true.
    pub fn send_body(&mut self, data: Bytes) {
        self.0.transport.push(data);
    }

    /// Ends the body of the request.
    pub fn end_body(&mut self) {
        self.0.is_sending = false;
    }

    /// Returns the next piece of the body, or `None` after its end. Cancel safe.
    pub async fn body(&mut self) -> Result<Option<Bytes>, ClientError> {
        poll_fn(|cx| self.poll_body(cx)).await
    }

    /// Polls for the next piece of the body, as [`body`](Connection::body) does.
    pub fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ClientError>> {
        let piece = ready!(self.poll_read_body(cx));
        if piece.is_err() {
            self.0.state = State::Broken;
        }
        Poll::Ready(piece)
    }

    /// Returns whether bytes have been received and not yet returned.
    pub fn has_buffered(&self) -> bool {
        !self.0.input.is_empty()
    }

    /// Returns the rest of the body in one piece.
    pub async fn body_all(&mut self, limit: usize) -> Result<Bytes, ClientError> {
        let mut pieces = Pieces::default();
        while let Some(piece) = self.body().await? {
            if !pieces.push(piece, limit) {
                self.0.state = State::Broken;
                return Err(ClientError::TooLarge(limit));
            }
        }
        Ok(pieces.join())
    }

    /// Returns whether the connection can carry a request. A new connection can. A used connection
    /// can if its last request was sent completely, the response has ended and permits another
    /// request, and no bytes followed the response. This method does not read from the connection,
    /// unlike [`is_stale`](Connection::is_stale).
    pub fn reusable(&self) -> bool {
        matches!(self.0.state, State::Idle)
            && self.0.keep_alive
            && self.0.input.is_empty()
            && self.0.transport.is_sent()
            && !self.0.is_sending
    }

    /// Returns whether no request is under way: none was sent, or the last response has ended.
    pub fn is_idle(&self) -> bool {
        matches!(self.0.state, State::Idle) && !self.0.is_sending
    }

    /// Returns whether the connection must not be used again, because it is not
    /// [`reusable`](Connection::reusable), or because the server has closed it or sent bytes that
    /// were not requested. Does not wait, so it misses a close that has not arrived yet. Such a
    /// close causes [`ClientError::Closed`] later.
    pub fn is_stale(&mut self) -> bool {
        if !self.reusable() {
            return true;
        }
        let bound = self.0.limits.buffer_bound();
        let mut cx = Context::from_waker(Waker::noop());
        let read = poll_fill(self.0.transport.stream_mut(), &mut self.0.input, bound, &mut cx);
        let Poll::Ready(read) = read else { return false };
        if !matches!(read, Ok(1..)) {
            self.0.state = State::Broken;
        }
        true
    }

    fn poll_read_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, ClientError>> {
        let Inner { transport, limits, input, state, .. } = &mut *self.0;
        let State::Waiting(waiting) = state else {
            return Poll::Ready(Err(ClientError::NotReusable));
        };
        let bound = limits.buffer_bound();
        loop {
            match parse_response(input, limits, waiting.is_head)? {
                Some(head) if head.status() == 101 && !waiting.upgrades => {
                    return Poll::Ready(Err(BadResponse::Upgrade.into()));
                }
                Some(head) if head.is_interim() && head.status() != 101 => {
                    waiting.interim += 1;
                    if waiting.interim > INTERIM_MAX {
                        return Poll::Ready(Err(BadResponse::TooManyInterim(INTERIM_MAX).into()));
                    }
                }
                Some(head) => return Poll::Ready(Ok(head)),
                None => match ready!(transport.poll_fill(input, bound, cx)) {
                    Ok(0) => return Poll::Ready(Err(ClientError::end(waiting.begun))),
                    Ok(_) => waiting.begun = true,
                    Err(error) => {
                        return Poll::Ready(Err(ClientError::from_read(error, waiting.begun)));
                    }
                },
            }
        }
    }

    fn poll_read_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ClientError>> {
        let bound = self.0.limits.buffer_bound();
        loop {
            let decoder = match &mut self.0.state {
                State::Body(decoder) => decoder,
                State::Idle => return Poll::Ready(Ok(None)),
                State::Waiting(_) | State::Tunnel | State::Broken => {
                    return Poll::Ready(Err(ClientError::NotReusable));
                }
            };
            match decoder.decode(&mut self.0.input).map_err(BadResponse::Body)? {
                Decoded::Data(data) => {
                    self.end_if_done();
                    return Poll::Ready(Ok(Some(data)));
                }
                Decoded::End => {
                    self.end_if_done();
                    return Poll::Ready(Ok(None));
                }
                Decoded::NeedMore => {}
            }
            match ready!(self.0.transport.poll_fill(&mut self.0.input, bound, cx)) {
                Ok(0) => {
                    decoder.eof().map_err(|_| ClientError::IncompleteMessage)?;
                    self.0.state = State::Idle;
                    return Poll::Ready(Ok(None));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(ClientError::from_read(error, true))),
            }
        }
    }

    fn end_if_done(&mut self) {
        if matches!(&self.0.state, State::Body(decoder) if decoder.is_done()) {
            self.0.state = State::Idle;
        }
    }
}
