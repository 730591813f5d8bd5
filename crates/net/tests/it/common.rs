//! Authorities, certificates in files, and connections over loopback.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use curtail_net::{
    CertificateFiles, ClientTls, ClientTlsSpec, Endpoint, HandshakeError, Listener, ServerTls,
    ServerTlsSpec, Stream, connect,
};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    SignatureAlgorithm,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// An authority that issues certificates into a temporary directory.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Authority::named(&format!("Test Authority {count}"))
    }

    pub(crate) fn named(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        std::fs::write(directory.path().join("ca.pem"), pem).unwrap();
        Authority { issuer: Issuer::new(params, key), directory }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Issues a certificate for these names, in files called after the first one. Replaces an
    /// earlier certificate with that name.
    pub(crate) fn issue(&self, names: &[&str]) -> CertificateFiles {
        self.issue_with(&PKCS_ECDSA_P256_SHA256, names, |_| ())
    }

    /// Issues a certificate that is valid until then.
    pub(crate) fn issue_until(&self, names: &[&str], not_after: SystemTime) -> CertificateFiles {
        self.issue_with(&PKCS_ECDSA_P256_SHA256, names, |params| {
            params.not_after = not_after.into();
        })
    }

    /// Issues a certificate with this kind of key.
    pub(crate) fn issue_for(
        &self,
        algorithm: &'static SignatureAlgorithm,
        names: &[&str],
    ) -> CertificateFiles {
        self.issue_with(algorithm, names, |_| ())
    }

    fn issue_with(
        &self,
        algorithm: &'static SignatureAlgorithm,
        names: &[&str],
        edit: impl FnOnce(&mut CertificateParams),
    ) -> CertificateFiles {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let stem = names[0].replace('*', "star");
        let mut params = CertificateParams::new(names).unwrap();
        edit(&mut params);
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = CertificateFiles {
            cert: self.path(&format!("{stem}.pem")),
            key: self.path(&format!("{stem}.key")),
        };
        std::fs::write(&files.cert, certificate.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    /// Returns a server with a certificate for `localhost`.
    pub(crate) fn server(&self) -> ServerTls {
        server(&[self.issue(&["localhost"])])
    }

    /// Returns a client that trusts this authority.
    pub(crate) fn client(&self) -> ClientTls {
        ClientTls::load(&self.client_spec()).unwrap()
    }

    pub(crate) fn client_spec(&self) -> ClientTlsSpec {
        ClientTlsSpec { ca: Some(self.ca()), ..ClientTlsSpec::default() }
    }
}

pub(crate) fn server(certificates: &[CertificateFiles]) -> ServerTls {
    let certificates = certificates.to_vec();
    ServerTls::load(&ServerTlsSpec { certificates, ..ServerTlsSpec::default() }).unwrap()
}

pub(crate) fn loopback() -> Endpoint {
    Endpoint::from(SocketAddr::from(([127, 0, 0, 1], 0)))
}

/// A client and a server that are connected without TLS.
pub(crate) async fn plain() -> [Stream; 2] {
    let listener = Listener::bind(&loopback()).unwrap();
    let local = listener.local().unwrap();
    let (client, server) = tokio::join!(connect(&local), listener.accept());
    [client.unwrap(), server.unwrap()]
}

/// Both results of a handshake.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) client: Result<Stream, HandshakeError>,
    pub(crate) server: Result<Stream, HandshakeError>,
}

impl Handshake {
    pub(crate) async fn over(
        streams: [Stream; 2],
        client: &ClientTls,
        server: &ServerTls,
        host: &str,
    ) -> Handshake {
        let [client_side, server_side] = streams;
        let (client, server) =
            tokio::join!(client.connect(client_side, host), server.accept(server_side, LONG));
        Handshake { client, server }
    }

    pub(crate) async fn new(client: &ClientTls, server: &ServerTls, host: &str) -> Handshake {
        Handshake::over(plain().await, client, server, host).await
    }

    #[track_caller]
    pub(crate) fn unwrap(self) -> Connected {
        Connected { client: self.client.unwrap(), server: self.server.unwrap() }
    }

    #[track_caller]
    pub(crate) fn client_error(self) -> String {
        self.client.unwrap_err().to_string()
    }
}

/// Both sides of a connection.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) client: Stream,
    pub(crate) server: Stream,
}

impl Connected {
    /// Sends bytes in both directions. Also makes the client read its session tickets.
    pub(crate) async fn exchange(&mut self) {
        self.client.write_all(b"ping").await.unwrap();
        self.client.flush().await.unwrap();
        let mut bytes = [0; 4];
        self.server.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"ping");
        self.server.write_all(b"pong").await.unwrap();
        self.server.flush().await.unwrap();
        self.client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"pong");
    }

    /// Returns whether a resumed session saved the exchange of certificates.
    pub(crate) fn is_resumed(&self) -> bool {
        let of = |stream: &Stream| stream.tls().unwrap().handshake_kind().unwrap();
        let resumed = of(&self.client) == rustls::HandshakeKind::Resumed;
        assert_eq!(of(&self.server) == rustls::HandshakeKind::Resumed, resumed);
        resumed
    }

    /// Returns the certificate that the server sent.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        self.client.tls().unwrap().peer_certificates().unwrap()[0].to_vec()
    }
}

/// Returns the certificate in a file.
pub(crate) fn der(file: &Path) -> Vec<u8> {
    use rustls::pki_types::pem::PemObject as _;
    rustls::pki_types::CertificateDer::from_pem_file(file).unwrap().to_vec()
}

/// Asserts that a text contains all the parts.
#[track_caller]
pub(crate) fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}
