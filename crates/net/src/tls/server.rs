//! The server's side of TLS: certificates by name, certificates of clients, resumption.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rustls::ServerConfig;
use rustls::crypto::ring::Ticketer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use tokio::io::AsyncReadExt as _;
use tokio_rustls::{TlsAcceptor, TlsStream};

use super::choice::ByName;
use super::error::TlsError;
use super::expiry::Expiry;
use super::handshake::{HandshakeError, Peer};
use super::pem::{CertificateFiles, Contents};
use super::provider;
use super::reload::{Reload, Reloadable, Specification};
use crate::stream::Stream;

/// The number of sessions of clients that do not support tickets. A session needs about 1 KiB.
const SESSIONS_MAX: usize = 1024;
/// Most first messages of clients fit into one read of this length.
const HELLO_BYTES: usize = 2048;
/// The first byte of a TLS connection: a record with a handshake message (RFC 8446 §5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// Whether clients send certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClientAuth {
    /// The server requests no certificate.
    #[default]
    None,
    /// A client may connect without a certificate. A certificate that it sends must be valid.
    Optional,
    /// A client without a valid certificate is refused.
    Required,
}

/// What a [`ServerTls`] is loaded from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServerTlsSpec {
    /// The certificates, at least one. The first is used for unknown names.
    pub certificates: Vec<CertificateFiles>,
    /// Whether clients send certificates.
    pub client_auth: ClientAuth,
    /// The authorities that sign the certificates of clients, in PEM.
    pub client_ca: Option<PathBuf>,
    /// The application protocols, the preferred one first (RFC 7301). If it is not empty, a client
    /// that offers only others is refused.
    pub alpn: Vec<Vec<u8>>,
}

/// Accepts TLS connections. Clones share one configuration.
#[derive(Clone, Debug)]
pub struct ServerTls {
    files: Arc<Reloadable<ServerTlsSpec>>,
}

pub(super) struct Built {
    config: Arc<ServerConfig>,
    expiries: Vec<Expiry>,
}

impl ServerTls {
    /// Loads certificates, keys and authorities.
    ///
    /// # Errors
    ///
    /// A file is missing or not valid, a key does not match its certificate, or the settings
    /// contradict each other.
    pub fn load(spec: &ServerTlsSpec) -> Result<ServerTls, TlsError> {
        Ok(ServerTls { files: Arc::new(Reloadable::load(spec.clone())?) })
    }

    /// Does the handshake with a client that has just connected. Not cancel safe.
    ///
    /// # Errors
    ///
    /// The handshake fails or takes longer than `timeout`. If the client does not use TLS,
    /// [`HandshakeError::NotTls`] returns the plain stream.
    pub async fn accept(
        &self,
        stream: Stream,
        timeout: Duration,
    ) -> Result<Stream, HandshakeError> {
        let config = Arc::clone(&self.files.current().config);
        let handshake = async {
            let stream = read_first(stream).await?;
            let session = TlsAcceptor::from(config).accept(stream).await;
            let session = session.map_err(|error| Peer::Client.failed(error))?;
            let stream = Stream::secured(TlsStream::Server(session));
            Peer::Client.check_resumed(&stream)?;
            Ok(stream)
        };
        let elapsed = |_| HandshakeError::Timeout(timeout);
        tokio::time::timeout(timeout, handshake).await.map_err(elapsed)?
    }

    /// Loads the files again if their contents changed, and returns whether they did. New
    /// handshakes use the new files. Open connections stay as they are. Reads files, so it blocks.
    ///
    /// # Errors
    ///
    /// The files cannot be loaded. New handshakes use the previous ones.
    pub fn reload(&self) -> Result<bool, TlsError> {
        self.files.reload()
    }

    /// Reloads at every interval until it is dropped, and reports changes and failures.
    pub async fn watch(&self, interval: Duration, on_event: impl Fn(Reload)) {
        self.files.watch(interval, on_event).await;
    }

    /// Returns when the certificates of this server and the authorities of its clients expire.
    /// Intermediate certificates are not listed.
    pub fn expiries(&self) -> Vec<Expiry> {
        self.files.current().expiries.clone()
    }
}

impl Specification for ServerTlsSpec {
    type Built = Built;

    fn files(&self) -> Vec<&Path> {
        let certificates = self.certificates.iter();
        let pairs = certificates.flat_map(|files| [&*files.cert, &*files.key]);
        pairs.chain(self.client_ca.as_deref()).collect()
    }

    fn build(&self, contents: &Contents) -> Result<Built, TlsError> {
        if self.certificates.is_empty() {
            return refuse("`certificates` is empty; add one with its key");
        }
        let provider = provider();
        let mut choice = ByName::default();
        let mut expiries = Vec::new();
        for files in &self.certificates {
            let certificate = contents.certified_key(files, &provider)?;
            let expiry = Expiry::of(&files.cert, &certificate.cert[0])?;
            choice.add(&expiry.names, certificate);
            expiries.push(expiry);
        }
        if let Some(file) = &self.client_ca {
            for certificate in contents.certificates(file)? {
                expiries.push(Expiry::of(file, &certificate)?);
            }
        }
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(self.verifier(contents)?)
            .with_cert_resolver(Arc::new(choice));
        config.alpn_protocols.clone_from(&self.alpn);
        config.ticketer = Ticketer::new()?;
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
        Ok(Built { config: Arc::new(config), expiries })
    }
}

impl ServerTlsSpec {
    fn verifier(&self, contents: &Contents) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let file = match (self.client_auth, &self.client_ca) {
            (ClientAuth::None, None) => return Ok(WebPkiClientVerifier::no_client_auth()),
            (ClientAuth::None, Some(_)) => {
                let message = "`client_ca` has no effect, because `client_auth` is none; remove \
                               `client_ca`, or set `client_auth` to optional or required";
                return refuse(message);
            }
            (_, None) => {
                let message = "`client_auth` needs `client_ca`; set it to a file with the \
                               authorities of the clients";
                return refuse(message);
            }
            (_, Some(file)) => file,
        };
        let roots = Arc::new(contents.roots(file)?);
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider());
        if self.client_auth == ClientAuth::Optional {
            builder = builder.allow_unauthenticated();
        }
        builder.build().map_err(|error| TlsError::certificate(file, &error))
    }
}

fn refuse<T>(message: &str) -> Result<T, TlsError> {
    Err(TlsError::Settings(message.to_owned()))
}

/// Reads the first bytes of the client and puts them back. Fails if they are not TLS.
async fn read_first(mut stream: Stream) -> Result<Stream, HandshakeError> {
    let mut first = BytesMut::with_capacity(HELLO_BYTES);
    match stream.read_buf(&mut first).await {
        Ok(0) => Err(Peer::Client.closed()),
        Ok(_) => {
            let is_tls = first[0] == HANDSHAKE_RECORD;
            let stream = stream.with_prefix(first.freeze());
            if is_tls {
                Ok(stream)
            } else {
                Err(HandshakeError::NotTls { stream: Box::new(stream) })
            }
        }
        Err(error) => Err(HandshakeError::Io(error)),
    }
}
