//! HTTP/2 (RFC 9113): concurrent requests on one connection.
//!
//! The `h2` crate handles frames at one end of an in-memory pipe. At the other end, bytes from the
//! wire are written to the pipe, and bytes for the wire are read from it. Received bytes trigger a
//! poll of the connection and the responses. Responses are counted and discarded as they arrive, so
//! flow-control windows stay open and memory use is constant.
//!
//! Cost: a few microseconds per request, for header tables and stream state.

mod grpc;
mod stream;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::{Bytes, BytesMut};
use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use h2::client::{Builder, Connection, SendRequest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use stream::{fault, response, unseen};

use crate::session::fault::{Fault, Greeting};
use crate::session::{Body, Out, Reply, Session, Sessions, Token};

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

impl std::fmt::Debug for Http2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http2").field("live", &self.live.len()).finish_non_exhaustive()
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

    /// Checks the server's first bytes. Returns true once they are known to be HTTP/2.
    fn greet(&mut self, input: &BytesMut) -> Result<bool, Fault> {
        let is_grpc = self.sessions.is_grpc();
        match Greeting::of(input) {
            Greeting::Http2 => {
                self.greeted = true;
                Ok(true)
            }
            Greeting::Unknown => Ok(false),
            Greeting::Http1 if is_grpc => Err(Fault::Mismatch(
                "the server sent HTTP/1 in response to HTTP/2, which gRPC needs; is it the right \
                 port?",
            )),
            Greeting::Http1 => Err(Fault::Mismatch(
                "the server sent HTTP/1 in response to HTTP/2; leave out --http2",
            )),
            Greeting::Tls if is_grpc => {
                Err(Fault::Mismatch("the server uses TLS; write grpcs:// instead of grpc://"))
            }
            Greeting::Tls => {
                Err(Fault::Mismatch("the server uses TLS; write https:// instead of http://"))
            }
            Greeting::Other => {
                Err(Fault::Mismatch("the server does not use HTTP/2; is it the right port?"))
            }
        }
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
        let most = self.sessions.streams.min(sender.current_max_send_streams());
        most.saturating_sub(self.live.len())
    }

    fn send(&mut self, query: usize, token: Token, out: &mut Out) {
        let started = self.start(query, token).map_err(|fault| out.reply(token, Err(fault)));
        let pumped = self.pump(out);
        self.closing |= started.is_err() || pumped.is_err();
    }

    fn receive(&mut self, input: &mut BytesMut, out: &mut Out) -> Result<(), Fault> {
        if !self.greeted && !self.greet(input)? {
            return Ok(());
        }
        while let Some(mut frame) = take_frame(input) {
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
