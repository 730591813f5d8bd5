//! HTTP/2 (RFC 9113) and gRPC: concurrent requests on one connection.
//!
//! The `h2` crate handles frames at one end of an in-memory pipe. At the other end, bytes from the
//! wire are written to the pipe, and bytes for the wire are read from it. Received bytes trigger a
//! poll of the connection and the responses. Responses are counted and discarded as they arrive, so
//! flow-control windows stay open and memory use is constant.
//!
//! Cost: a few microseconds per request, for header tables and stream state.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::{Bytes, BytesMut};
use curtail_http::grpc::CODES;
use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method};
use percent_encoding::percent_decode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use crate::session::fault::{Expected, Fault};
use crate::session::requests::CallHead;
use crate::session::{Body, Out, Reply, Session, Sessions, Status, Token, Whole};

/// Capacity of the pipe in each direction, which is larger than one read from the socket.
const PIPE_BYTES: usize = 1 << 20;
const TAKEN_BYTES: usize = 16 << 10;
/// The number of bytes that a server may send before it gets a WINDOW_UPDATE.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
const FRAME_HEAD_BYTES: usize = 9;
/// The maximum frame payload, because this client leaves SETTINGS_MAX_FRAME_SIZE at its default
/// (§6.5.2).
const FRAME_BYTES_MAX: usize = 16 << 10;
const HEADERS_BYTES_MAX: u32 = 64 << 10;
/// Maximum number of reset streams to remember. Frames on other reset streams trigger another
/// reset.
const RESET_STREAMS_MAX: usize = 4 << 10;

pub(crate) struct Http2 {
    sessions: Arc<Sessions>,
    pipe: DuplexStream,
    /// `None` once the connection has ended.
    connection: Option<Connection<DuplexStream, Bytes>>,
    sender: Option<SendRequest<Bytes>>,
    responses: FuturesUnordered<Abortable<BoxFuture<'static, Reply>>>,
    live: BTreeMap<Token, AbortHandle>,
    woken: Arc<Woken>,
    greeted: bool,
    closing: bool,
}

/// Set if a task must be polled again.
#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Http2 {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Http2 {
        let (pipe, other) = duplex(PIPE_BYTES);
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(HEADERS_BYTES_MAX)
            // Send only one request until the server's SETTINGS arrive, because the server could
            // refuse a second stream.
            .initial_max_send_streams(1)
            .max_concurrent_reset_streams(RESET_STREAMS_MAX)
            // Frames for abandoned requests do not count as a protocol violation.
            .max_local_error_reset_streams(None);
        // The handshake only writes, and the pipe has room for that.
        let made = builder.handshake::<_, Bytes>(other).now_or_never().and_then(Result::ok);
        let (sender, connection) = made.unzip();
        Http2 {
            sessions,
            pipe,
            connection,
            sender,
            responses: FuturesUnordered::new(),
            live: BTreeMap::new(),
            woken: Arc::default(),
            greeted: false,
            closing: false,
        }
    }

    /// Drives the connection and the responses, and appends their output.
    fn pump(&mut self, out: &mut Out) -> Result<(), Fault> {
        let (waker, before) = (Waker::from(Arc::clone(&self.woken)), out.replies.len());
        let mut context = Context::from_waker(&waker);
        let ended = loop {
            self.woken.0.store(false, Ordering::Relaxed);
            let Some(connection) = &mut self.connection else { break Some(Fault::Closed) };
            let polled = Pin::new(connection).poll(&mut context);
            // Responses that arrived before the end are valid.
            while let Poll::Ready(Some(ended)) = self.responses.poll_next_unpin(&mut context) {
                if let Ok(reply) = ended {
                    self.live.remove(&reply.token);
                    out.replies.push(reply);
                }
            }
            self.take(&mut out.bytes);
            if let Poll::Ready(done) = polled {
                self.connection = None;
                break Some(done.err().map_or(Fault::Closed, |error| fault(&error)));
            }
            if !self.woken.0.load(Ordering::Relaxed) {
                break None;
            }
        };
        let mut context = Context::from_waker(Waker::noop());
        let sender = self.sender.as_mut().map(|sender| sender.poll_ready(&mut context));
        // This happens after a GOAWAY, or when the stream identifiers are exhausted.
        self.closing |= !matches!(sender, Some(Poll::Ready(Ok(())) | Poll::Pending));
        match ended {
            Some(fault) => {
                // Replaces the generic fault with the server's reason for closing the connection.
                let closed = |reply: &&mut Reply| matches!(reply.result, Err(Fault::Closed));
                for reply in out.replies[before..].iter_mut().filter(closed) {
                    reply.result = Err(fault.clone());
                }
                Err(fault)
            }
            None => out.check(),
        }
    }

    fn take(&mut self, out: &mut BytesMut) {
        loop {
            out.reserve(TAKEN_BYTES);
            match self.pipe.read_buf(out).now_or_never() {
                Some(Ok(1..)) => {}
                _ => return,
            }
        }
    }

    fn start(&mut self, query: usize, token: Token) -> Result<(), Fault> {
        let call = self.sessions.call(query).ok_or(Fault::Closed)?;
        let sender = self.sender.as_mut().ok_or(Fault::Closed)?;
        let (to, mut body) = sender
            .send_request(call.request(), call.body.is_none())
            .map_err(|error| unseen(&error))?;
        if let Some(bytes) = &call.body {
            body.send_data(bytes.clone(), true).map_err(|error| fault(&error))?;
        }
        let (head, body) = (Arc::clone(&call.head), Body::new(self.sessions.body_bytes_max));
        let reply = async move { Reply { token, result: response(to, &head, body).await } };
        let (handle, registration) = AbortHandle::new_pair();
        self.responses.push(Abortable::new(reply.boxed(), registration));
        self.live.insert(token, handle);
        Ok(())
    }
}

/// Removes one complete frame (RFC 9113 §4.1) from the start of `input`. Frames are processed one
/// at a time, so that a request's outcome does not depend on how reads are split. Returns all bytes
/// if the frame is oversized, because `h2` then rejects the frame header.
fn take_frame(input: &mut BytesMut) -> Option<BytesMut> {
    let head = input.get(..FRAME_HEAD_BYTES)?;
    let length = FRAME_HEAD_BYTES + u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    if length > FRAME_HEAD_BYTES + FRAME_BYTES_MAX {
        return Some(input.split());
    }
    (input.len() >= length).then(|| input.split_to(length))
}

impl Session for Http2 {
    fn capacity(&self) -> usize {
        let Some(sender) = self.sender.as_ref().filter(|_| !self.closing) else { return 0 };
        let most = self.sessions.protocol.streams.min(sender.current_max_send_streams());
        most.saturating_sub(self.live.len())
    }

    fn send(&mut self, query: usize, token: Token, out: &mut Out) {
        let started = self.start(query, token).map_err(|fault| out.reply(token, Err(fault)));
        let pumped = self.pump(out);
        self.closing |= started.is_err() || pumped.is_err();
    }

    fn receive(&mut self, input: &mut BytesMut, out: &mut Out) -> Result<(), Fault> {
        if !self.greeted {
            let expected = if self.sessions.is_grpc() { Expected::Grpc } else { Expected::Http2 };
            self.greeted = expected.check(input)?;
        }
        while self.greeted
            && let Some(mut frame) = take_frame(input)
        {
            // The pipe has room, because all earlier bytes have been read.
            let _ = self.pipe.write_all_buf(&mut frame).now_or_never();
            self.pump(out)?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out) -> Fault {
        let _ = self.pipe.shutdown().now_or_never();
        let fault = self.pump(out).err().unwrap_or(Fault::Closed);
        for token in std::mem::take(&mut self.live).into_keys() {
            out.reply(token, Err(fault.clone()));
        }
        fault
    }

    fn abandon(&mut self, token: Token, out: &mut Out) -> bool {
        if let Some(response) = self.live.remove(&token) {
            response.abort();
        }
        let usable = self.pump(out).is_ok();
        // A server that has never sent anything may be unreachable.
        usable && self.greeted
    }

    fn reusable(&self) -> bool {
        !self.closing
    }
}

async fn response(
    to: ResponseFuture,
    request: &CallHead,
    mut counted: Body,
) -> Result<Whole, Fault> {
    let (head, mut body) = to.await.map_err(|error| unseen(&error))?.into_parts();
    let mut unary = request.is_grpc.then(Unary::default);
    if let Some(unary) = &mut unary {
        unary.headers(&head.headers);
    }
    let announced = head.headers.get(CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
    // The content-length of a response to HEAD announces no body.
    if let Some(length) = announced.filter(|_| request.method != Method::HEAD) {
        counted.expect(length)?;
    }
    while let Some(data) = body.data().await {
        let data = data.map_err(|error| incomplete(&error))?;
        counted.add(data.len() as u64)?;
        if let Some(unary) = &mut unary {
            unary.data(&data);
        }
        // This fails only if more capacity is released than was received.
        let _ = body.flow_control().release_capacity(data.len());
    }
    if let Some(unary) = &mut unary
        && let Some(trailers) = body.trailers().await.map_err(|error| incomplete(&error))?
    {
        unary.headers(&trailers);
    }
    let status = match &mut unary {
        // A successful call has status 200 and a gRPC status. A response with a 2xx status but
        // without a gRPC status is a fault.
        Some(unary) if head.status.is_success() => unary.status()?,
        _ => Status::Http(head.status.as_u16()),
    };
    Ok(Whole::new(status, counted.bytes))
}

fn incomplete(error: &h2::Error) -> Fault {
    match fault(error) {
        Fault::Closed => Fault::IncompleteMessage,
        fault => fault,
    }
}

/// Maps the `h2` error of a request to a fault, if no part of the response has arrived yet. A
/// GOAWAY ends only requests that the server guarantees not to have processed (RFC 9113 §6.8).
fn unseen(error: &h2::Error) -> Fault {
    match fault(error) {
        Fault::Reset(why) if error.is_remote() && error.is_go_away() => Fault::Unprocessed(why),
        fault => fault,
    }
}

fn fault(error: &h2::Error) -> Fault {
    let reason =
        error.reason().map_or_else(|| "no reason".to_owned(), |reason| format!("{reason:?}"));
    if error.is_io() {
        Fault::Closed
    } else if error.is_remote() && error.is_go_away() {
        Fault::Reset(format!("GOAWAY, {reason}"))
    } else if error.is_remote() {
        Fault::Reset(format!("RST_STREAM, {reason}"))
    } else {
        Fault::Malformed(format!("the server sent invalid HTTP/2: {error}"))
    }
}

const PREFIX_BYTES: usize = 5;

/// The response to a unary gRPC call (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md). A message consists
/// of a flag, a 4-byte length, and the number of bytes that the length specifies. The status is in
/// the trailers, or in the headers if there is no message. Messages are counted and discarded.
#[derive(Debug, Default)]
struct Unary {
    prefix: Vec<u8>,
    bytes: u64,
    status: Option<(Vec<u8>, Vec<u8>)>,
}

impl Unary {
    fn headers(&mut self, headers: &HeaderMap) {
        let value = |name| headers.get(name).map(|value| value.as_bytes().to_vec());
        if let Some(code) = value("grpc-status") {
            self.status = Some((code, value("grpc-message").unwrap_or_default()));
        }
    }

    fn data(&mut self, data: &[u8]) {
        let missing = PREFIX_BYTES - self.prefix.len();
        self.prefix.extend_from_slice(&data[..missing.min(data.len())]);
        self.bytes += data.len() as u64;
    }

    fn status(&mut self) -> Result<Status, Fault> {
        let malformed = |message: String| Err(Fault::Malformed(message));
        let Some((code, message)) = self.status.take() else {
            return malformed("the response has no grpc-status; is it a gRPC server?".to_owned());
        };
        let number = std::str::from_utf8(&code).ok().and_then(|code| code.parse::<usize>().ok());
        let Some(number) = number else {
            return malformed("the grpc-status of the response is not a number".to_owned());
        };
        if number > 0 {
            let name = CODES.get(number).copied().unwrap_or("a code that is not known");
            let message: Vec<u8> = percent_decode(&message).collect();
            let reason = [format!("{number} {name}: ").as_bytes(), &message].concat();
            return Ok(Status::refused(&reason));
        }
        match *self.prefix {
            [_, a, b, c, d] => {
                let length = u64::from(u32::from_be_bytes([a, b, c, d]));
                let received = self.bytes - PREFIX_BYTES as u64;
                if length == received {
                    Ok(Status::Fine)
                } else {
                    malformed(format!("a message of {length} bytes, but {received} arrived"))
                }
            }
            _ => malformed("the response to a successful call has no message".to_owned()),
        }
    }
}
