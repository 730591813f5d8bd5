//! Relays the body of a request to a server while it arrives. The client's window opens only as fast
//! as the server reads. Until the response begins, the first [`REPLAY_BYTES`] that were sent are kept,
//! because a server may announce that it has not processed the request.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use curtail_http::Pieces;
use curtail_http::h1::{LAST_CHUNK, write_chunk};
use curtail_http::h2::poll_room;
use h2::{Reason, RecvStream, SendStream};

use super::pipe::BodyReceiver;
use super::pool::PooledStream;
use crate::failure::Failure;

/// Maximum number of bytes that are kept to be sent again.
const REPLAY_BYTES: usize = 64 << 10;

/// Minimum number of bytes to relay at once, if they have arrived.
const JOINED_BYTES: usize = 16 << 10;

/// Maximum number of bytes of a chunk. A chunk is copied behind its length.
const CHUNK_BYTES: usize = 16 << 10;

/// A body that arrives from a client.
#[derive(Debug)]
pub struct Source {
    body: Arriving,
    /// Pieces that come first, because they were sent to a server that did not process them.
    first: VecDeque<Bytes>,
    /// What has arrived after them.
    pieces: Pieces,
    /// `None` while the body arrives.
    end: Option<Result<(), Incomplete>>,
}

#[derive(Debug)]
enum Arriving {
    Http2(RecvStream),
    Buffer(BodyReceiver),
}

/// The client has broken off its request.
#[derive(Clone, Copy, Debug)]
struct Incomplete;

impl From<RecvStream> for Source {
    fn from(body: RecvStream) -> Self {
        Self::new(Arriving::Http2(body))
    }
}

impl From<BodyReceiver> for Source {
    fn from(body: BodyReceiver) -> Self {
        Self::new(Arriving::Buffer(body))
    }
}

impl Source {
    fn new(body: Arriving) -> Self {
        Self { body, first: VecDeque::new(), pieces: Pieces::default(), end: None }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Incomplete>>> {
        if let Some(piece) = self.first.pop_front() {
            return Poll::Ready(Some(Ok(piece)));
        }
        while self.end.is_none()
            && self.pieces.length() < JOINED_BYTES
            && self.poll_arriving(context).is_ready()
        {}
        if self.pieces.has_remaining() {
            let length = self.pieces.chunk().len();
            return Poll::Ready(Some(Ok(self.pieces.copy_to_bytes(length))));
        }
        match self.end {
            None => Poll::Pending,
            Some(end) => Poll::Ready(end.err().map(Err)),
        }
    }

    /// Polls for more. Small pieces are joined: a server might take many small frames of HTTP/2 for an
    /// attack.
    fn poll_arriving(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.body {
            Arriving::Http2(body) => match ready!(body.poll_data(context)) {
                Some(Ok(piece)) => {
                    // A stream that has ended needs no more capacity.
                    let _ = body.flow_control().release_capacity(piece.len());
                    self.pieces.push(piece, usize::MAX);
                }
                Some(Err(_)) => self.end = Some(Err(Incomplete)),
                None => self.end = Some(Ok(())),
            },
            Arriving::Buffer(_) if self.pieces.has_remaining() => return Poll::Pending,
            Arriving::Buffer(body) => match ready!(body.poll_next(context)) {
                Ok(Some(pieces)) => self.pieces = pieces,
                Ok(None) => self.end = Some(Ok(())),
                Err(_) => self.end = Some(Err(Incomplete)),
            },
        }
        Poll::Ready(())
    }
}

/// Takes the bytes of a request.
pub(super) trait Sink {
    /// Returns how many of `wanted` bytes can be sent now, or `None` if the server wants no more of
    /// the body.
    fn poll_room(&mut self, wanted: usize, context: &mut Context<'_>) -> Poll<Option<usize>>;

    /// Returns whether the connection is still open.
    fn send(&mut self, part: Bytes) -> bool;

    fn end(&mut self);

    /// Makes sure that the server does not take an incomplete request for a complete one.
    fn reset(&mut self);
}

impl Sink for SendStream<Bytes> {
    fn poll_room(&mut self, wanted: usize, context: &mut Context<'_>) -> Poll<Option<usize>> {
        // The end of the body needs no window.
        if wanted == 0 { Poll::Ready(Some(0)) } else { poll_room(self, wanted, context) }
    }

    fn send(&mut self, part: Bytes) -> bool {
        self.send_data(part, false).is_ok()
    }

    fn end(&mut self) {
        let _ = self.send_data(Bytes::new(), true);
    }

    fn reset(&mut self) {
        self.send_reset(Reason::CANCEL);
    }
}

/// A connection of HTTP/1.1.
pub(super) struct Http1<'s> {
    pub(super) stream: &'s mut PooledStream,
    /// The number of bytes that are still to be sent, or `None` if the body is sent in chunks.
    pub(super) left: &'s mut Option<u64>,
}

impl Sink for Http1<'_> {
    fn poll_room(&mut self, wanted: usize, context: &mut Context<'_>) -> Poll<Option<usize>> {
        let most = if self.left.is_some() { wanted } else { wanted.min(CHUNK_BYTES) };
        self.stream.poll_room(context).map(|open| open.then_some(most))
    }

    fn send(&mut self, part: Bytes) -> bool {
        if let Some(left) = self.left {
            *left = left.saturating_sub(part.len() as u64);
            self.stream.send_body(part);
            if *left == 0 {
                // The server may respond before the end of the source is seen.
                self.stream.end_body();
            }
        } else {
            let mut chunk = BytesMut::with_capacity(part.len() + 16);
            write_chunk(&mut chunk, &part);
            self.stream.send_body(chunk.freeze());
        }
        true
    }

    fn end(&mut self) {
        if self.left.is_none() {
            self.stream.send_body(Bytes::from_static(LAST_CHUNK));
            self.stream.end_body();
        }
    }

    fn reset(&mut self) {
        // The body has no end, so the connection is reset when it is dropped.
    }
}

/// A body under way.
#[derive(Debug)]
pub(super) struct Upload {
    source: Source,
    piece: Bytes,
    /// What was sent. `None` if it is too much, or no longer needed.
    sent: Option<Vec<Bytes>>,
    /// The source has ended.
    is_read: bool,
    is_over: bool,
    /// The client has broken off its request.
    is_broken: bool,
}

impl Upload {
    pub(super) fn new(source: Source) -> Self {
        let piece = Bytes::new();
        let sent = Some(Vec::new());
        Self { source, piece, sent, is_read: false, is_over: false, is_broken: false }
    }

    /// The response has begun, so the body is not sent again.
    pub(super) fn commit(&mut self) {
        self.sent = None;
    }

    /// Returns the whole body, to be sent again. `None` if too much of it was sent.
    pub(super) fn into_source(self) -> Option<Source> {
        let mut first: VecDeque<Bytes> = self.sent?.into();
        first.push_back(self.piece);
        first.extend(self.source.first);
        Some(Source { first, ..self.source })
    }

    fn keep(&mut self, part: &Bytes) {
        let Some(sent) = &mut self.sent else { return };
        sent.push(part.clone());
        if sent.iter().map(Bytes::len).sum::<usize>() > REPLAY_BYTES {
            self.sent = None;
        }
    }

    /// Relays what can be relayed now. The task is woken when there is more to do. Fails if the
    /// client has broken off its request.
    pub(super) fn advance(
        &mut self,
        sink: &mut impl Sink,
        context: &mut Context<'_>,
    ) -> Result<(), Failure> {
        while !self.is_over && self.poll_step(sink, context).is_ready() {}
        if self.is_broken { Err(Failure::GivenUp) } else { Ok(()) }
    }

    fn poll_step(&mut self, sink: &mut impl Sink, context: &mut Context<'_>) -> Poll<()> {
        if self.piece.is_empty() && !self.is_read {
            match ready!(self.source.poll(context)) {
                Some(Ok(piece)) => self.piece = piece,
                Some(Err(Incomplete)) => {
                    sink.reset();
                    (self.is_over, self.is_broken) = (true, true);
                }
                None => self.is_read = true,
            }
            return Poll::Ready(());
        }
        // The end needs room, too, because HTTP/1.1 sends a last chunk.
        let Some(room) = ready!(sink.poll_room(self.piece.len(), context)) else {
            // The server wants no more of the body, and sends its response.
            self.is_over = true;
            return Poll::Ready(());
        };
        if self.piece.is_empty() {
            sink.end();
            self.is_over = true;
        } else {
            let part = self.piece.split_to(room);
            self.keep(&part);
            self.is_over = !sink.send(part);
        }
        Poll::Ready(())
    }
}
