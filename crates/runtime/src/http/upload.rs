//! Relays the body of a request from an HTTP/2 client to an HTTP/2 server. It holds one piece, and the
//! client's window opens only as fast as the server reads.

use std::task::{Context, Poll};

use bytes::Bytes;
use curtail_http::h2::poll_room;
use h2::{Reason, RecvStream, SendStream};

/// A body under way.
#[derive(Debug)]
pub(super) struct Upload {
    source: RecvStream,
    sink: SendStream<Bytes>,
    piece: Bytes,
    is_over: bool,
}

impl Upload {
    pub(super) fn new(source: RecvStream, sink: SendStream<Bytes>) -> Self {
        Self { source, sink, piece: Bytes::new(), is_over: false }
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
                self.is_over = self.sink.send_data(part, false).is_err();
                // A stream that has ended needs no more capacity.
                let _ = self.source.flow_control().release_capacity(room);
            }
            // The server wants no more of the body, and sends its response.
            Poll::Ready(None) => self.is_over = true,
            Poll::Pending => return Poll::Pending,
        }
        Poll::Ready(())
    }

    fn receive(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.source.poll_data(context) {
            Poll::Ready(Some(Ok(piece))) => self.piece = piece,
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
