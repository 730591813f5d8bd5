//! A stream of HTTP/2 as a tunnel for bytes of any protocol (RFC 8441).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use h2::{RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::poll_room;

/// Maximum number of bytes that are copied by one write.
const PIECE_BYTES: usize = 16 << 10;

/// Both directions of a stream. Dropping it before both have ended resets the stream.
#[derive(Debug)]
pub struct Tunnel {
    /// `None` after the end.
    receiving: Option<RecvStream>,
    sending: SendStream<Bytes>,
    /// Received and not yet read.
    received: Bytes,
}

impl Tunnel {
    /// Creates a tunnel from the bodies of an exchange. Without `receiving`, the peer has sent
    /// everything.
    pub fn new(receiving: Option<RecvStream>, sending: SendStream<Bytes>) -> Self {
        Self { receiving, sending, received: Bytes::new() }
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.received.is_empty() {
            let Some(receiving) = &mut this.receiving else { return Poll::Ready(Ok(())) };
            match ready!(receiving.poll_data(context)) {
                Some(Ok(data)) => this.received = data,
                Some(Err(error)) => return Poll::Ready(Err(failed(error))),
                None => this.receiving = None,
            }
        }
        let length = this.received.len().min(into.remaining());
        into.put_slice(&this.received[..length]);
        this.received.advance(length);
        if let Some(receiving) = &mut this.receiving {
            // A stream that has ended needs no more capacity.
            let _ = receiving.flow_control().release_capacity(length);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        if from.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let room = ready!(poll_room(&mut self.sending, from.len().min(PIECE_BYTES), context));
        let room = room.ok_or(io::ErrorKind::BrokenPipe)?;
        self.sending.send_data(Bytes::copy_from_slice(&from[..room]), false).map_err(failed)?;
        Poll::Ready(Ok(room))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The task of the connection sends frames as soon as it can.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.sending.send_data(Bytes::new(), true).map_err(failed))
    }
}

/// The stream or its connection has ended.
pub(super) fn failed(error: h2::Error) -> io::Error {
    error.into_io().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())
}
