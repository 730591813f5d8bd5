//! What `h2` takes for a connection: two buffers. Reading waits while nothing has come, writing never
//! does; neither wakes anybody, for the session polls the connection whenever it has put something
//! in.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Both ends of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Pipe {
    buffers: Arc<Mutex<Buffers>>,
}

#[derive(Debug, Default)]
struct Buffers {
    incoming: BytesMut,
    outgoing: BytesMut,
    ended: bool,
}

impl Pipe {
    fn buffers(&self) -> MutexGuard<'_, Buffers> {
        // Nothing that is done with them can stop halfway.
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn give(&self, input: &mut BytesMut) {
        self.buffers().incoming.unsplit(input.split());
    }

    pub(super) fn take(&self, out: &mut BytesMut) {
        out.unsplit(self.buffers().outgoing.split());
    }

    pub(super) fn end(&self) {
        self.buffers().ended = true;
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut buffers = self.buffers();
        if buffers.incoming.is_empty() {
            return if buffers.ended { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let count = buffers.incoming.len().min(into.remaining());
        into.put_slice(&buffers.incoming[..count]);
        buffers.incoming.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.buffers().outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
