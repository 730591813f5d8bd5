//! HTTP/2 (RFC 9113): many requests at once on a connection.
//!
//! The frames are those of the crate `h2`, which is made to do no I/O: it reads and writes buffers
//! (`pipe.rs`), and is polled when there is something new, with wakers that only take down which
//! request is concerned (`wakers.rs`). Answers are counted and let go as they come, so windows stay
//! open and memory is constant.
//!
//! Cost: some microseconds per request, for the header tables and the bookkeeping of streams.

mod grpc;
mod pipe;
mod stream;
mod wakers;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use h2::client::{Builder, Connection, SendRequest};

use pipe::Pipe;
use stream::{Stream, fault, unseen};
use wakers::Wakers;

use crate::session::fault::{Fault, Greeting};
use crate::session::{Reply, Session, Sessions, Token, check_output};

/// What a server may send before it hears that it was read.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
const FRAME_HEAD_BYTES: usize = 9;
/// The longest frame without its head, which no setting of ours changes (§6.5.2).
const FRAME_BYTES_MAX: usize = 16 << 10;
const HEADERS_BYTES_MAX: u32 = 64 << 10;
/// Requests that were given up and whose answers are still expected. Frames of others are answered
/// with another reset.
const GIVEN_UP_MAX: usize = 4 << 10;

pub(crate) struct Http2 {
    sessions: Arc<Sessions>,
    pipe: Pipe,
    connection: Option<Connection<Pipe, Bytes>>,
    sender: Option<SendRequest<Bytes>>,
    wakers: Wakers,
    streams: Vec<Option<Stream>>,
    live: usize,
    /// What could not be sent at all.
    failed: Vec<Reply>,
    /// The server is known to speak HTTP/2.
    greeted: bool,
    closing: bool,
}

impl std::fmt::Debug for Http2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http2").field("live", &self.live).finish_non_exhaustive()
    }
}

impl Http2 {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Http2 {
        let (pipe, wakers) = (Pipe::default(), Wakers::new());
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(HEADERS_BYTES_MAX)
            // Until the server has said how many it takes: one more could be refused.
            .initial_max_send_streams(1)
            .max_concurrent_reset_streams(GIVEN_UP_MAX)
            // Frames of requests that were given up are no misbehavior.
            .max_local_error_reset_streams(None);
        let mut handshake = Box::pin(builder.handshake::<_, Bytes>(pipe.clone()));
        let polled = handshake.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        // It only writes, which the pipe always takes.
        let (sender, connection) = match polled {
            Poll::Ready(Ok((sender, connection))) => (Some(sender), Some(connection)),
            Poll::Ready(Err(_)) | Poll::Pending => (None, None),
        };
        Http2 {
            sessions,
            pipe,
            connection,
            sender,
            wakers,
            streams: Vec::new(),
            live: 0,
            failed: Vec::new(),
            greeted: false,
            closing: false,
        }
    }

    /// Lets the connection and the requests take what is new, and appends what they have to say.
    fn pump(&mut self, out: &mut BytesMut, replies: &mut Vec<Reply>) -> Result<(), Fault> {
        replies.append(&mut self.failed);
        let (waker, before) = (self.wakers.connection(), replies.len());
        let ended = loop {
            self.wakers.take_connection();
            let Some(connection) = &mut self.connection else { break Some(Fault::Closed) };
            match Pin::new(connection).poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => {}
                Poll::Ready(done) => {
                    self.connection = None;
                    let ended = done.err().map_or(Fault::Closed, |error| fault(&error));
                    // What came before the end is looked at.
                    (0..self.streams.len()).for_each(|at| self.poll(at as Token, replies));
                    break Some(ended);
                }
            }
            let woken = self.wakers.take_streams();
            for token in &woken {
                self.poll(*token, replies);
            }
            if woken.is_empty() && !self.wakers.take_connection() {
                break None;
            }
        };
        self.pipe.take(out);
        let mut context = Context::from_waker(Waker::noop());
        let sender = self.sender.as_mut().map(|sender| sender.poll_ready(&mut context));
        // After a GOAWAY, or the last number of a stream.
        self.closing |= !matches!(sender, Some(Poll::Ready(Ok(())) | Poll::Pending));
        match ended {
            Some(fault) => {
                // The server has said why it closes.
                let closed = |reply: &&mut Reply| matches!(reply.result, Err(Fault::Closed));
                for reply in replies[before..].iter_mut().filter(closed) {
                    reply.result = Err(fault.clone());
                }
                Err(fault)
            }
            None => check_output(out),
        }
    }

    fn poll(&mut self, token: Token, replies: &mut Vec<Reply>) {
        let waker = self.wakers.stream(token);
        let Some(slot) = self.streams.get_mut(token as usize) else { return };
        let Some(stream) = slot else { return };
        let most = self.sessions.body_bytes_max;
        if let Poll::Ready(result) = stream.poll(&mut Context::from_waker(&waker), most) {
            // What is not over is reset by that.
            *slot = None;
            self.live -= 1;
            replies.push(Reply { token, result });
        }
    }

    fn start(&mut self, query: usize, token: Token) -> Result<(), Fault> {
        let call = self.sessions.call(query).ok_or(Fault::Closed)?;
        let sender = self.sender.as_mut().ok_or(Fault::Closed)?;
        let (response, mut body) = sender
            .send_request(call.request(), call.body.is_none())
            .map_err(|error| unseen(&error))?;
        if let Some(bytes) = &call.body {
            body.send_data(bytes.clone(), true).map_err(|error| fault(&error))?;
        }
        let stream = Stream::new(response, call);
        let at = token as usize;
        if at >= self.streams.len() {
            self.streams.resize_with(at + 1, || None);
        }
        self.streams[at] = Some(stream);
        self.live += 1;
        // So that it has a waker.
        let mut replies = Vec::new();
        self.poll(token, &mut replies);
        self.failed.append(&mut replies);
        Ok(())
    }

    /// Looks at the first bytes of the server; true if the rest may be.
    fn greet(&mut self, input: &BytesMut) -> Result<bool, Fault> {
        let is_grpc = self.sessions.is_grpc();
        match Greeting::of(input) {
            Greeting::Http2 => {
                self.greeted = true;
                Ok(true)
            }
            Greeting::Unknown => Ok(false),
            Greeting::Http1 if is_grpc => Err(Fault::Mismatch(
                "the server answered HTTP/1 to HTTP/2, which gRPC needs; is it the right port?",
            )),
            Greeting::Http1 => {
                Err(Fault::Mismatch("the server answered HTTP/1 to HTTP/2; leave out --http2"))
            }
            Greeting::Tls if is_grpc => {
                Err(Fault::Mismatch("the server speaks TLS; write grpcs:// instead of grpc://"))
            }
            Greeting::Tls => {
                Err(Fault::Mismatch("the server speaks TLS; write https:// instead of http://"))
            }
            Greeting::Other => {
                Err(Fault::Mismatch("the server does not speak HTTP/2; is it the right port?"))
            }
        }
    }

    fn fail(&mut self, replies: &mut Vec<Reply>, fault: &Fault) {
        for (token, slot) in self.streams.iter_mut().enumerate() {
            let Some(stream) = slot.take() else { continue };
            let half = matches!(fault, Fault::Closed) && stream.has_begun();
            let fault = if half { Fault::HalfAnswer } else { fault.clone() };
            replies.push(Reply { token: token as Token, result: Err(fault) });
        }
        self.live = 0;
    }
}

/// Takes a frame (RFC 9113 §4.1) off the start of `input`, once it is whole. One at a time, so that
/// what a request comes to does not depend on what else was read with it. Of one that is too long,
/// what there is: it is refused by its head.
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
        most.saturating_sub(self.live)
    }

    fn send(&mut self, query: usize, token: Token, out: &mut BytesMut) {
        if let Err(fault) = self.start(query, token) {
            self.closing = true;
            self.failed.push(Reply { token, result: Err(fault) });
        }
        // What became of others, or of this one at once, is asked for separately.
        let mut replies = Vec::new();
        if self.pump(out, &mut replies).is_err() {
            self.closing = true;
        }
        self.failed.append(&mut replies);
    }

    fn receive(
        &mut self,
        input: &mut BytesMut,
        out: &mut BytesMut,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Fault> {
        if !self.greeted && !self.greet(input)? {
            return Ok(());
        }
        while let Some(mut frame) = take_frame(input) {
            self.pipe.give(&mut frame);
            self.pump(out, replies)?;
        }
        Ok(())
    }

    fn end(&mut self, replies: &mut Vec<Reply>) -> Fault {
        self.pipe.end();
        let ended = self.pump(&mut BytesMut::new(), replies);
        let fault = ended.err().unwrap_or(Fault::Closed);
        self.fail(replies, &fault);
        fault
    }

    fn abandon(&mut self, token: Token, out: &mut BytesMut) -> bool {
        if self.streams.get_mut(token as usize).is_some_and(|slot| slot.take().is_some()) {
            self.live -= 1;
        }
        let mut replies = Vec::new();
        let usable = self.pump(out, &mut replies).is_ok();
        self.failed.append(&mut replies);
        // A server that has never said anything may not be there at all.
        usable && self.greeted
    }

    fn replies_at_once(&mut self, replies: &mut Vec<Reply>) {
        replies.append(&mut self.failed);
    }

    fn reusable(&self) -> bool {
        !self.closing
    }
}
