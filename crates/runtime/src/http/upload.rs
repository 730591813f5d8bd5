//! Relays the body of a request from an HTTP/2 client to an HTTP/2 server. The client's window opens
//! only as fast as the server reads. Until the response begins, the first [`REPLAY_BYTES`] that were
//! sent are kept, because a server may announce that it has not processed the request.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use bytes::Bytes;
use curtail_http::h2::poll_room;
use h2::{Reason, RecvStream, SendStream};

/// Maximum number of bytes that are kept to be sent again.
const REPLAY_BYTES: usize = 64 << 10;

/// A body that arrives from a client.
#[derive(Debug)]
pub struct Source {
    body: RecvStream,
    /// Pieces that come first, because they were sent to a server that did not process them.
    first: VecDeque<Bytes>,
}

impl From<RecvStream> for Source {
    fn from(body: RecvStream) -> Self {
        Self { body, first: VecDeque::new() }
    }
}

/// A body under way.
#[derive(Debug)]
pub(super) struct Upload {
    source: Source,
    sink: SendStream<Bytes>,
    piece: Bytes,
    /// What was sent. `None` if it is too much, or no longer needed.
    sent: Option<Vec<Bytes>>,
    is_over: bool,
}

impl Upload {
    pub(super) fn new(source: Source, sink: SendStream<Bytes>) -> Self {
        Self { source, sink, piece: Bytes::new(), sent: Some(Vec::new()), is_over: false }
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
        Some(Source { body: self.source.body, first })
    }

    fn keep(&mut self, part: &Bytes) {
        let Some(sent) = &mut self.sent else { return };
        sent.push(part.clone());
        if sent.iter().map(Bytes::len).sum::<usize>() > REPLAY_BYTES {
            self.sent = None;
        }
    }

    /// Relays what can be relayed now. The task is woken when there is more to do.
    pub(super) fn advance(&mut self, context: &mut Context<'_>) {
        while !self.is_over {
            let done =
                if self.piece.is_empty() { self.receive(context) } else { self.send(context) };
            if done.is_pending() {
                return;
            }
        }
    }

    fn send(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match poll_room(&mut self.sink, self.piece.len(), context) {
            Poll::Ready(Some(room)) => {
                let part = self.piece.split_to(room);
                self.keep(&part);
                self.is_over = self.sink.send_data(part, false).is_err();
            }
            // The server wants no more of the body, and sends its response.
            Poll::Ready(None) => self.is_over = true,
            Poll::Pending => return Poll::Pending,
        }
        Poll::Ready(())
    }

    fn receive(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(piece) = self.source.first.pop_front() {
            self.piece = piece;
            return Poll::Ready(());
        }
        match self.source.body.poll_data(context) {
            Poll::Ready(Some(Ok(piece))) => {
                // The next piece is read only when this one was sent. A stream that has ended needs
                // no more capacity.
                let _ = self.source.body.flow_control().release_capacity(piece.len());
                self.piece = piece;
            }
            Poll::Ready(Some(Err(_))) => {
                // The client has reset its request. The server must not take that for its end.
                self.sink.send_reset(Reason::CANCEL);
                self.is_over = true;
            }
            Poll::Ready(None) => {
                let _ = self.sink.send_data(Bytes::new(), true);
                self.is_over = true;
            }
            Poll::Pending => return Poll::Pending,
        }
        Poll::Ready(())
    }
}
