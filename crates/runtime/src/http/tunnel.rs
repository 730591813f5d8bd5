//! A connection, or a stream of one, to a server that has switched to another protocol.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use curtail_http::h2;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::multiplexed::Link;
use super::pool::PooledStream;

/// Both directions of a tunnel to a server.
#[derive(Debug)]
pub struct Tunnel(Transport);

#[derive(Debug)]
enum Transport {
    Http1(PooledStream),
    Http2 {
        stream: h2::Tunnel,
        /// Keeps the place on the connection.
        _link: Link,
    },
}

impl Tunnel {
    pub(super) fn http1(mut stream: PooledStream) -> Self {
        // Bytes that were received with the head of the response come first.
        let received = stream.take_buffered();
        stream.stream_mut().prepend(received);
        Self(Transport::Http1(stream))
    }

    pub(super) fn http2(stream: h2::Tunnel, link: Link) -> Self {
        Self(Transport::Http2 { stream, _link: link })
    }

    fn transport(&mut self) -> Pin<&mut (dyn Duplex + '_)> {
        match &mut self.0 {
            Transport::Http1(stream) => Pin::new(stream.stream_mut()),
            Transport::Http2 { stream, .. } => Pin::new(stream),
        }
    }
}

trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.transport().poll_read(context, into)
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.transport().poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport().poll_shutdown(context)
    }
}
