//! A server, and all connections to it.

use std::io;
use std::net::SocketAddr;

use curtail_http::h1::ResponseHead;
use curtail_net::{Address, ClientTls, HandshakeError, Stream};
use tokio::time::timeout;

use super::Settings;
use super::incoming::Incoming;
use super::message::Request;
use super::multiplexed::Multiplexed;
use super::pool::{Pool, PooledStream};
use super::send_error::SendError;
use crate::failure::Failure;

/// The version of HTTP that a server gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2. Without TLS, by prior knowledge.
    Http2,
    /// HTTP/2 if the server chooses it in the TLS handshake (ALPN), and HTTP/1.1 otherwise.
    Auto,
}

/// A server, and how it is reached.
#[derive(Clone, Debug)]
pub struct Replica {
    /// Its address. A name is resolved whenever a connection is opened.
    pub address: Address,
    /// The TLS configuration, or `None` for plain connections. Its ALPN list must fit the protocol.
    pub tls: Option<ClientTls>,
    /// The version of HTTP.
    pub protocol: Protocol,
}

impl From<SocketAddr> for Replica {
    fn from(address: SocketAddr) -> Self {
        let address = Address::Tcp { host: address.ip().to_string(), port: address.port() };
        Self { address, tls: None, protocol: Protocol::Http1 }
    }
}

/// A server, and all connections to it.
#[derive(Debug)]
pub struct Upstream {
    replica: Replica,
    settings: Settings,
    /// Connections that carry one request at a time.
    pool: Pool,
    /// Connections that carry concurrent requests.
    multiplexed: Multiplexed,
}

impl Upstream {
    pub(super) fn new(replica: Replica, settings: Settings) -> Self {
        let (pool, multiplexed) = (Pool::new(settings), Multiplexed::new(settings));
        Self { replica, settings, pool, multiplexed }
    }

    /// Returns the server's address.
    pub fn address(&self) -> &Address {
        &self.replica.address
    }

    /// Opens a connection, with TLS if the server uses TLS.
    pub(super) async fn open(&self) -> Result<Stream, Failure> {
        match timeout(self.settings.connect_timeout, self.connect()).await {
            Ok(connected) => connected,
            Err(_) => Err(Failure::ConnectTimeout(self.settings.connect_timeout)),
        }
    }

    async fn connect(&self) -> Result<Stream, Failure> {
        let endpoints = self.replica.address.resolve().await;
        let endpoints = endpoints.map_err(|error| Failure::from(&error))?;
        let mut failure = Failure::ConnectFailed(io::ErrorKind::NotFound);
        for endpoint in &endpoints {
            match curtail_net::connect(endpoint).await {
                Ok(stream) => {
                    let Some(tls) = &self.replica.tls else { return Ok(stream) };
                    let host = self.replica.address.host().unwrap_or("localhost");
                    return tls.connect(stream, host).await.map_err(|error| self.refused(&error));
                }
                Err(error) => failure = Failure::from(&error),
            }
        }
        Err(failure)
    }

    fn refused(&self, error: &HandshakeError) -> Failure {
        let address = self.address();
        tracing::debug!(%address, %error, "no TLS connection to a replica");
        Failure::Handshake
    }

    /// Sends a request with additional lines, and waits for the head of its response. If a
    /// connection that was used before has been closed, sends the request once more on a new
    /// connection, unless the first one may have been processed and a repetition would do harm.
    pub(super) async fn exchange(
        &self,
        request: &Request,
        more: &[u8],
    ) -> Result<(Incoming, ResponseHead), Failure> {
        // A reused connection may turn out to be closed, and some bodies cannot be sent again.
        let pooled = || if request.body().is_whole() { self.pool.reuse() } else { None };
        let reused = match self.replica.protocol {
            Protocol::Http1 => pooled().map(Connection::Pooled),
            Protocol::Http2 => self.multiplexed.reuse().map(Connection::Shared),
            Protocol::Auto => match self.multiplexed.reuse() {
                Some(link) => Some(Connection::Shared(link)),
                None => pooled().map(Connection::Pooled),
            },
        };
        if let Some(connection) = reused {
            match self.send(connection, request, more).await {
                Ok(sent) => return Ok(sent),
                Err(SendError::Unsent) => {}
                Err(SendError::Closed) if request.may_repeat() => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Rare, and large: in the future itself, it would be moved with every copy.
        let connection = Box::pin(self.fresh()).await?;
        Ok(self.send(connection, request, more).await?)
    }

    /// Sends a request on a connection that is opened for it.
    pub(super) async fn fresh_exchange(
        &self,
        request: &Request,
    ) -> Result<(Incoming, ResponseHead), Failure> {
        let connection = match self.fresh_stream().await? {
            Fresh::Http1(stream) => Connection::Pooled(stream),
            Fresh::Http2(stream) => {
                let alone = Multiplexed::new(self.settings);
                Connection::Shared(alone.open(std::future::ready(Ok(stream))).await?)
            }
        };
        Ok(self.send(connection, request, b"").await?)
    }

    async fn fresh(&self) -> Result<Connection, Failure> {
        if self.replica.protocol == Protocol::Http2 {
            return Ok(Connection::Shared(self.multiplexed.open(self.open()).await?));
        }
        match self.fresh_stream().await? {
            Fresh::Http1(stream) => Ok(Connection::Pooled(stream)),
            Fresh::Http2(stream) => {
                let opened = std::future::ready(Ok(stream));
                Ok(Connection::Shared(self.multiplexed.open(opened).await?))
            }
        }
    }

    async fn fresh_stream(&self) -> Result<Fresh, Failure> {
        let stream = self.open().await?;
        let is_http2 = match self.replica.protocol {
            Protocol::Http1 => false,
            Protocol::Http2 => true,
            Protocol::Auto => stream.alpn() == Some(b"h2"),
        };
        if is_http2 {
            return Ok(Fresh::Http2(stream));
        }
        Ok(Fresh::Http1(PooledStream::new(stream, self.settings.limits)))
    }

    async fn send(
        &self,
        connection: Connection,
        request: &Request,
        more: &[u8],
    ) -> Result<(Incoming, ResponseHead), SendError> {
        match connection {
            Connection::Pooled(stream) => Incoming::http1(stream, &self.pool, request, more).await,
            Connection::Shared(link) => {
                let (secure, limits) = (self.replica.tls.is_some(), &self.settings.limits);
                if request.upgrade().is_some() {
                    self.multiplexed.settled().await;
                }
                // Large, and moved with every copy if it were in the future itself.
                Box::pin(Incoming::http2(link, request, more, secure, limits)).await
            }
        }
    }

    /// Closes the connections that have been idle for long. To be called now and then.
    pub(super) fn close_old(&self) {
        self.pool.close_old();
        self.multiplexed.close_old();
    }

    /// Closes the idle connections.
    pub(super) fn close_idle(&self) {
        self.pool.clear();
        self.multiplexed.clear();
    }
}

/// A connection that was just opened.
enum Fresh {
    Http1(PooledStream),
    Http2(Stream),
}

/// A connection that can carry a request.
enum Connection {
    Pooled(PooledStream),
    Shared(super::multiplexed::Link),
}
