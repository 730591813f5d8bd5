//! Servers that speak TLS, with authorities made for the test.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

/// A server's side of TLS, and the file that names whom to trust.
pub(crate) struct Secure {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) authority: PathBuf,
    _directory: TempDir,
}

impl Secure {
    /// Of a server that has this name, and agrees to these protocols.
    pub(crate) fn new(name: &str, protocols: &[&str]) -> Secure {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        Secure::with(&certificate, &authority, &key, protocols)
    }

    /// Of a server of this name whose certificate is its own authority's.
    #[allow(dead_code)] // not every test with TLS needs one
    pub(crate) fn by_itself(name: &str) -> Secure {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Secure::with(&certificate, &certificate, &key, &[])
    }

    fn with(
        certificate: &Certificate,
        authority: &Certificate,
        key: &KeyPair,
        protocols: &[&str],
    ) -> Secure {
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("authority.pem");
        std::fs::write(&file, authority.pem()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Secure { acceptor, authority: file, _directory: directory }
    }
}
