//! A byte stream to a client or to a server: plain or TLS, over TCP or a Unix socket.
//!
//! A plain stream adds one `match` and one comparison to each read and write. It allocates nothing
//! and copies nothing.

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use rustix::net::{SendFlags, sockopt};
use rustls::CommonState;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

use crate::endpoint::Endpoint;

/// A connected byte stream. Implements [`AsyncRead`] and [`AsyncWrite`].
///
/// A TLS stream buffers what it writes. Flush it when a message is complete.
pub struct Stream {
    transport: Transport,
    /// Bytes that were read already and that the next reads return. Empty for most connections.
    prefix: Bytes,
    /// The peer that `accept` or a PROXY header reported. Otherwise the socket is queried.
    peer: Option<Endpoint>,
}

enum Transport {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<Stream>>),
}

impl Stream {
    fn new(transport: Transport) -> Stream {
        Stream { transport, prefix: Bytes::new(), peer: None }
    }

    /// Wraps a finished TLS session. The ends of the connection stay the same.
    pub(crate) fn secured(session: TlsStream<Stream>) -> Stream {
        Stream::new(Transport::Tls(Box::new(session)))
    }

    /// Makes reads return these bytes first. They were read from this stream already, so they come
    /// before what an earlier prefix has left.
    #[must_use]
    pub fn with_prefix(mut self, prefix: Bytes) -> Stream {
        self.prepend(prefix);
        self
    }

    /// Makes reads return these bytes first, as [`with_prefix`](Stream::with_prefix) does.
    pub fn prepend(&mut self, prefix: Bytes) {
        let later = std::mem::take(&mut self.prefix);
        self.prefix = match (prefix.is_empty(), later.is_empty()) {
            (true, _) => later,
            (false, true) => prefix,
            (false, false) => [prefix, later].concat().into(),
        };
    }

    /// Returns the descriptor of a plain stream.
    ///
    /// # Errors
    ///
    /// The stream is encrypted ([`io::ErrorKind::Unsupported`]), or cannot be taken from its runtime.
    pub fn into_descriptor(self) -> io::Result<OwnedFd> {
        match self.transport {
            Transport::Tcp(socket) => socket.into_std().map(OwnedFd::from),
            Transport::Unix(socket) => socket.into_std().map(OwnedFd::from),
            Transport::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Replaces the peer, because a PROXY header or the listener reported it.
    #[must_use]
    pub fn with_peer(mut self, peer: Endpoint) -> Stream {
        self.peer = Some(peer);
        self
    }

    /// Returns the other end of the connection. A PROXY header replaces it. Returns none for a
    /// client of a Unix socket, which has no path, and after the connection failed.
    pub fn peer(&self) -> Option<Endpoint> {
        if self.peer.is_some() {
            return self.peer.clone();
        }
        match &self.transport {
            Transport::Tcp(socket) => socket.peer_addr().ok().map(Endpoint::Ip),
            Transport::Unix(socket) => Endpoint::of_unix(&socket.peer_addr().ok()?),
            Transport::Tls(session) => session.get_ref().0.peer(),
        }
    }

    /// Returns our end of the connection. A PROXY header does not change it. Returns none for a
    /// Unix socket without a path.
    pub fn local(&self) -> Option<Endpoint> {
        match &self.transport {
            Transport::Tcp(socket) => socket.local_addr().ok().map(Endpoint::Ip),
            Transport::Unix(socket) => Endpoint::of_unix(&socket.local_addr().ok()?),
            Transport::Tls(session) => session.get_ref().0.local(),
        }
    }

    /// Moves the socket to the driver of the current runtime. Another runtime opened it, and would
    /// have to notify this one whenever the socket is ready.
    ///
    /// # Errors
    ///
    /// The process has no free file descriptor. The socket then stays with the other driver, and the
    /// stream stays usable.
    pub fn move_here(&mut self) -> io::Result<()> {
        // A copy of the descriptor, because the socket cannot be taken out of a TLS session.
        match &mut self.transport {
            Transport::Tcp(socket) => {
                let copy = socket.as_fd().try_clone_to_owned()?;
                *socket = TcpStream::from_std(copy.into())?;
            }
            Transport::Unix(socket) => {
                let copy = socket.as_fd().try_clone_to_owned()?;
                *socket = UnixStream::from_std(copy.into())?;
            }
            Transport::Tls(session) => session.get_mut().0.move_here()?,
        }
        Ok(())
    }

    /// Makes TCP send small segments at once. Does nothing on a Unix socket.
    ///
    /// # Errors
    ///
    /// The system refuses the option.
    pub fn set_nodelay(&self) -> io::Result<()> {
        self.tcp().map_or(Ok(()), |socket| socket.set_nodelay(true))
    }

    /// Makes TCP reset the connection when the stream is dropped, so that unsent bytes are lost and
    /// the peer sees an error. Does nothing on a Unix socket.
    ///
    /// # Errors
    ///
    /// The system refuses the option.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.tcp().map_or(Ok(()), TcpStream::set_zero_linger)
    }

    /// Sets the type of service of IPv4 packets (RFC 791) or the traffic class of IPv6 packets
    /// (RFC 8200 §7). Does nothing on a Unix socket.
    ///
    /// # Errors
    ///
    /// The system refuses the option.
    pub fn set_type_of_service(&self, value: u8) -> io::Result<()> {
        let Some(socket) = self.tcp() else { return Ok(()) };
        let address = socket.local_addr()?;
        if address.is_ipv6() {
            sockopt::set_ipv6_tclass(socket, value.into())?;
        }
        // An IPv6 socket sends IPv4 packets if its address is a mapped one.
        if address.ip().to_canonical().is_ipv4() {
            sockopt::set_ip_tos(socket, value)?;
        }
        Ok(())
    }

    /// Returns whether the stream is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self.transport, Transport::Tls(_))
    }

    /// Returns the state of the TLS session: its version, whether it was resumed, and the
    /// certificates of the peer. Returns none for a plain stream.
    pub fn tls(&self) -> Option<&CommonState> {
        match &self.transport {
            Transport::Tls(session) => Some(session.get_ref().1),
            Transport::Tcp(_) | Transport::Unix(_) => None,
        }
    }

    /// Returns the protocol that both sides chose in the TLS handshake (RFC 7301).
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls()?.alpn_protocol()
    }

    /// Returns the name that the client requested in the TLS handshake (RFC 6066 §3). Returns none
    /// on the client's side.
    pub fn server_name(&self) -> Option<&str> {
        match &self.transport {
            Transport::Tls(session) => match &**session {
                TlsStream::Server(session) => session.get_ref().1.server_name(),
                TlsStream::Client(_) => None,
            },
            Transport::Tcp(_) | Transport::Unix(_) => None,
        }
    }

    /// Sends what the socket accepts now and returns the number of bytes. Never waits. Use it for a
    /// last message to a client that must not hold anything.
    ///
    /// # Errors
    ///
    /// The stream is encrypted ([`io::ErrorKind::Unsupported`]), the buffer of the socket is full,
    /// or the connection failed.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_tls() {
            let message = "an encrypted stream cannot be written to without waiting";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        // tokio cannot write to a socket that was just accepted before it has polled the socket.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::send(self, bytes, flags)?)
    }

    fn tcp(&self) -> Option<&TcpStream> {
        match &self.transport {
            Transport::Tcp(socket) => Some(socket),
            Transport::Unix(_) => None,
            Transport::Tls(session) => session.get_ref().0.tcp(),
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Stream {
        Stream::new(Transport::Tcp(socket))
    }
}

impl From<UnixStream> for Stream {
    fn from(socket: UnixStream) -> Stream {
        Stream::new(Transport::Unix(socket))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.transport {
            Transport::Tcp(socket) => socket.as_fd(),
            Transport::Unix(socket) => socket.as_fd(),
            Transport::Tls(session) => session.get_ref().0.as_fd(),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match &self.transport {
            Transport::Tcp(_) => "tcp",
            Transport::Unix(_) => "unix",
            Transport::Tls(_) => "tls",
        };
        f.debug_struct("Stream")
            .field("transport", &transport)
            .field("peer", &self.peer())
            .field("local", &self.local())
            .field("prefix", &self.prefix.len())
            .finish()
    }
}

/// Evaluates an expression with the stream inside a transport.
macro_rules! each {
    ($transport:expr, $inner:ident => $value:expr) => {
        match $transport {
            Transport::Tcp($inner) => $value,
            Transport::Unix($inner) => $value,
            Transport::Tls($inner) => $value,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.prefix.is_empty() {
            let length = this.prefix.len().min(buffer.remaining());
            buffer.put_slice(&this.prefix[..length]);
            this.prefix.advance(length);
            if this.prefix.is_empty() {
                // Frees the buffer, which the connection may outlive by hours.
                this.prefix = Bytes::new();
            }
            return Poll::Ready(Ok(()));
        }
        each!(&mut this.transport, inner => Pin::new(inner).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(&mut self.transport, inner => Pin::new(inner).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(&mut self.transport, inner => Pin::new(inner).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        each!(&self.transport, inner => inner.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut self.transport, inner => Pin::new(inner).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut self.transport, inner => Pin::new(inner).poll_shutdown(cx))
    }
}
