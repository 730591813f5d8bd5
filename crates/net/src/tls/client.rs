//! The client's side of TLS: trust, our own certificate, resumption.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::{ResolvesClientCert, Resumption};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::{TlsConnector, TlsStream};

use super::error::TlsError;
use super::expiry::Expiry;
use super::handshake::{HandshakeError, Peer};
use super::pem::{CertificateFiles, Contents};
use super::provider;
use super::reload::{Reload, Reloadable, Specification};
use crate::stream::Stream;

/// The number of server names whose sessions are kept.
const SESSIONS_MAX: usize = 256;

/// What a [`ClientTls`] is loaded from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientTlsSpec {
    /// The authorities to trust, in PEM. None stands for those of the system.
    pub ca: Option<PathBuf>,
    /// The name to request and to verify. None stands for the host of each connection.
    pub name: Option<String>,
    /// Our certificate, for servers that require one.
    pub cert_key: Option<CertificateFiles>,
    /// The application protocols, the preferred one first (RFC 7301).
    pub alpn: Vec<Vec<u8>>,
}

/// Makes TLS connections. Clones share one configuration and its sessions.
#[derive(Clone, Debug)]
pub struct ClientTls {
    files: Arc<Reloadable<ClientTlsSpec>>,
}

pub(super) struct Built {
    config: Arc<ClientConfig>,
    expiries: Vec<Expiry>,
}

impl ClientTls {
    /// Loads authorities, our certificate and its key.
    ///
    /// # Errors
    ///
    /// A file is missing or not valid, the key does not match the certificate, the system has no
    /// authorities, or the name cannot be verified.
    pub fn load(spec: &ClientTlsSpec) -> Result<ClientTls, TlsError> {
        Ok(ClientTls { files: Arc::new(Reloadable::load(spec.clone())?) })
    }

    /// Does the handshake with a server that a stream has just connected to. Verifies that the
    /// certificate of the server contains the name in the configuration. Without such a name, it
    /// must contain `host`, which is a name or an IP address. Limit its time with a timeout. Not cancel safe.
    ///
    /// With TLS 1.3, a server that refuses our certificate does so after the handshake. The first
    /// read from the stream returns that error.
    ///
    /// # Errors
    ///
    /// The server does not use TLS, its certificate is not acceptable, or it refuses.
    pub async fn connect(&self, stream: Stream, host: &str) -> Result<Stream, HandshakeError> {
        let built = self.files.current();
        let host = self.files.specification().name.as_deref().unwrap_or(host);
        let name = server_name(host).ok_or_else(|| HandshakeError::Name(host.to_owned()))?;
        let peer = Peer::Server(host);
        let session = TlsConnector::from(Arc::clone(&built.config)).connect(name, stream).await;
        let session = session.map_err(|error| peer.failed(error))?;
        let stream = Stream::secured(TlsStream::Client(session));
        if let Err(error) = peer.check_resumed(&stream) {
            // The next connection verifies the certificate that the server has now.
            self.files.replace(&built, built.without_sessions());
            return Err(error);
        }
        Ok(stream)
    }

    /// Loads the files again if their contents changed, and returns whether they did. New
    /// handshakes use the new files. Open connections stay as they are. Reads files, so it blocks.
    /// The system's authorities are not loaded again.
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

    /// Returns when our certificate and the authorities in `ca` expire. Intermediate certificates
    /// are not listed.
    pub fn expiries(&self) -> Vec<Expiry> {
        self.files.current().expiries.clone()
    }
}

impl Built {
    fn without_sessions(&self) -> Built {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        Built { config: Arc::new(config), expiries: self.expiries.clone() }
    }
}

impl Specification for ClientTlsSpec {
    type Built = Built;

    fn files(&self) -> Vec<&Path> {
        let pair = self.cert_key.iter().flat_map(|files| [&*files.cert, &*files.key]);
        pair.chain(self.ca.as_deref()).collect()
    }

    fn build(&self, contents: &Contents) -> Result<Built, TlsError> {
        if let Some(name) = self.name.as_ref().filter(|name| server_name(name).is_none()) {
            let fix = "use a host name or an IP address";
            let message = format!("name `{name}`: a certificate cannot contain it; {fix}");
            return Err(TlsError::Settings(message));
        }
        let provider = provider();
        let mut expiries = Vec::new();
        let mut own: Option<Arc<dyn ResolvesClientCert>> = None;
        if let Some(files) = &self.cert_key {
            let certificate = contents.certified_key(files, &provider)?;
            expiries.push(Expiry::of(&files.cert, &certificate.cert[0])?);
            own = Some(Arc::new(SingleCertAndKey::from(certificate)));
        }
        let roots = match &self.ca {
            Some(file) => {
                for certificate in contents.certificates(file)? {
                    expiries.push(Expiry::of(file, &certificate)?);
                }
                contents.roots(file)?
            }
            None => system_roots()?,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match own {
            Some(own) => builder.with_client_cert_resolver(own),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols.clone_from(&self.alpn);
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        Ok(Built { config: Arc::new(config), expiries })
    }
}

/// Parses a host name or an IP address. Verification ignores the dot at the end of absolute names.
fn server_name(host: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).ok()
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // Some systems have certificates that cannot be used. The remaining ones are sufficient.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or(String::new(), |error| format!(": {error}"));
        let fix = "set `ca` to a file, or install them";
        return Err(TlsError::Settings(format!(
            "the system has no trusted authorities{why}; {fix}"
        )));
    }
    Ok(roots)
}
