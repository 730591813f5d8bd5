//! Connections that switch to another protocol, such as WebSocket (RFC 9110 §7.8, RFC 8441).
//!
//! The handshake is a query, which is never duplicated, and its copy ends with the response. The
//! tunnel itself holds no slot, because tunnels last long. The service has a limit of its own for
//! them. HTTP/1.1 and HTTP/2 may meet: an `Upgrade` and an extended CONNECT ask for the same.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use curtail_http::h1::{RequestHead, Version};
use curtail_runtime::http;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use crate::route::Target;
use crate::state::Service;

/// The headers of the handshake of WebSocket (RFC 6455 §4.1). HTTP/2 does not have them.
pub(super) const WEBSOCKET_KEY: &str = "sec-websocket-key";
pub(super) const WEBSOCKET_ACCEPT: &str = "sec-websocket-accept";
const WEBSOCKET: &str = "websocket";

/// Number of bytes of each direction that wait for a slow receiver.
const BUFFER_BYTES: usize = 8 << 10;

/// A client's request to switch to another protocol.
#[derive(Debug)]
pub(super) struct Upgrade {
    /// The name of the protocol, as the client sent it.
    pub(super) protocol: String,
    /// Whether the client uses HTTP/2, where any response of success opens the tunnel (RFC 8441 §5).
    pub(super) is_connect: bool,
    /// The key of a WebSocket, from a client of HTTP/1.1.
    key: Option<String>,
    /// Holds the place.
    _permit: OwnedSemaphorePermit,
    idle_timeout: Duration,
}

/// Why a client cannot have a tunnel.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoTunnel {
    #[error("the service has no room for another tunnel (tunnels.max)")]
    Full,
    /// Over HTTP/2, the request cannot become an ordinary one.
    #[error("no tunnel is permitted here (tunnel = true in the route), or not for this protocol")]
    Protocol,
}

impl NoTunnel {
    /// Returns the status of the response.
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::Full => 503,
            Self::Protocol => 501,
        }
    }
}

impl Upgrade {
    /// Takes a place for the tunnel that a request asks for. Returns `None` for an ordinary request. A
    /// request over HTTP/1.1 for a tunnel that the route or the service does not permit is ordinary.
    pub(super) fn of(
        head: &RequestHead,
        target: &Target,
        service: &Service,
    ) -> Result<Option<Self>, NoTunnel> {
        let Some(protocol) = head.upgrade() else { return Ok(None) };
        let tunnels = &service.config.tunnels;
        let is_connect = head.version() == Version::Http2;
        let is_known = |known: &String| known.eq_ignore_ascii_case(protocol);
        if !target.tunnel || !tunnels.protocols.iter().any(is_known) {
            return if is_connect { Err(NoTunnel::Protocol) } else { Ok(None) };
        }
        let key = head.header(WEBSOCKET_KEY).and_then(|key| std::str::from_utf8(key).ok());
        let permit = Arc::clone(&service.tunnels).try_acquire_owned();
        Ok(Some(Self {
            protocol: protocol.to_owned(),
            key: key.map(str::to_owned),
            is_connect,
            _permit: permit.map_err(|_| NoTunnel::Full)?,
            idle_timeout: tunnels.idle_timeout,
        }))
    }

    /// Returns a key for a replica that uses HTTP/1.1, if the client did not send one.
    pub(super) fn new_key(&self) -> Option<String> {
        if !self.is_connect || !self.protocol.eq_ignore_ascii_case(WEBSOCKET) {
            return None;
        }
        let mut key = [0; 16];
        // The key only shows that the replica has read it.
        let _ = SystemRandom::new().fill(&mut key);
        Some(STANDARD.encode(key))
    }

    /// Returns the value of [`WEBSOCKET_ACCEPT`] that proves to the client that its key was read.
    pub(super) fn accept(&self) -> Option<String> {
        const ID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
        let key = self.key.as_ref()?;
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{ID}").as_bytes());
        Some(STANDARD.encode(hash))
    }
}

/// A tunnel whose client has its response.
#[derive(Debug)]
pub(super) struct Tunnel {
    pub(super) replica: Box<http::Tunnel>,
    pub(super) upgrade: Arc<Upgrade>,
}

impl Tunnel {
    /// Relays both directions until both have ended, one has failed, or no bytes have come for too
    /// long.
    pub(super) async fn run(self, mut client: impl AsyncRead + AsyncWrite + Unpin) {
        let Self { replica, upgrade } = self;
        let last = Activity(Arc::new(AtomicU64::new(0)), Instant::now());
        let mut replica = Watched { stream: *replica, last: last.clone() };
        let copying =
            copy_bidirectional_with_sizes(&mut client, &mut replica, BUFFER_BYTES, BUFFER_BYTES);
        tokio::select! {
            ended = copying => tracing::debug!(?ended, protocol = upgrade.protocol, "tunnel ended"),
            () = last.idle(upgrade.idle_timeout) => {
                tracing::debug!(protocol = upgrade.protocol, "idle tunnel closed");
            }
        }
        drop(upgrade);
    }
}

/// When a tunnel carried bytes last, in ms since an instant.
#[derive(Clone)]
struct Activity(Arc<AtomicU64>, Instant);

impl Activity {
    fn note(&self) {
        self.0.store(self.1.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Resolves when there has been none for this time.
    async fn idle(&self, timeout: Duration) {
        loop {
            let until = self.1 + Duration::from_millis(self.0.load(Ordering::Relaxed)) + timeout;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// A stream whose reads and writes are noted.
struct Watched<T> {
    stream: T,
    last: Activity,
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if read.is_ready() {
            self.last.note();
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, from);
        if written.is_ready() {
            self.last.note();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_standard_has_its_accept_value() {
        let permits = Arc::new(tokio::sync::Semaphore::new(1));
        let upgrade = Upgrade {
            protocol: "WebSocket".to_owned(),
            is_connect: false,
            key: Some("dGhlIHNhbXBsZSBub25jZQ==".to_owned()),
            _permit: permits.try_acquire_owned().expect("a permit"),
            idle_timeout: Duration::ZERO,
        };
        // RFC 6455 §1.3.
        assert_eq!(upgrade.accept().as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    }
}
