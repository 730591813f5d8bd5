//! The TLS configuration of a run: trust anchors and ALPN (RFC 8446, RFC 5246).

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use crate::plan::Plan;
use crate::plan::error::PlanError;
use crate::plan::protocol::Trust;
use crate::session::{Session, Tls};

#[derive(Debug)]
pub(crate) struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    http2: bool,
}

impl TlsClient {
    pub(crate) fn prepare(plan: &Plan) -> Result<TlsClient, PlanError> {
        let refuse = |message: String| PlanError::Value(message);
        let provider = Arc::new(ring::default_provider());
        let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| refuse(format!("TLS cannot be set up: {error}")))?;
        let builder = match &plan.protocol.trust {
            Trust::Anyone => {
                versions.dangerous().with_custom_certificate_verifier(Arc::new(Anyone { provider }))
            }
            Trust::File(path) => versions.with_root_certificates(file(path)?),
            Trust::System => versions.with_root_certificates(system()?),
        };
        let mut config = builder.with_no_client_auth();
        let http2 = plan.protocol.http2 || plan.target.scheme().is_grpc();
        let protocol: &[u8] = if http2 { b"h2" } else { b"http/1.1" };
        config.alpn_protocols = vec![protocol.to_vec()];
        let host = plan.target.host();
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            refuse(format!("host `{host}` is not a name that a certificate can contain"))
        })?;
        let client = TlsClient { config: Arc::new(config), name, http2 };
        // Detects failures before the run that would otherwise occur on every connection.
        client.open().map_err(|error| refuse(format!("TLS cannot be set up: {error}")))?;
        Ok(client)
    }

    pub(crate) fn wrap(&self, inner: Box<dyn Session>) -> Box<dyn Session> {
        let tls = self.open().expect("`prepare` opened one before");
        Box::new(Tls::new(tls, inner, self.http2))
    }

    fn open(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}

fn file(path: &Path) -> Result<RootCertStore, PlanError> {
    let refuse =
        |message: String| PlanError::Value(format!("--cacert {}: {message}", path.display()));
    let mut roots = RootCertStore::empty();
    let advice = "use a file with certificates in PEM";
    let certificates = CertificateDer::pem_file_iter(path)
        .map_err(|error| refuse(format!("cannot be read: {error}; check the path")))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| refuse(format!("{error}; {advice}")))?;
        roots.add(certificate).map_err(|error| refuse(format!("{error}; {advice}")))?;
    }
    if roots.is_empty() {
        Err(refuse(format!("contains no certificate; {advice}")))
    } else {
        Ok(roots)
    }
}

fn system() -> Result<RootCertStore, PlanError> {
    let mut roots = RootCertStore::empty();
    // Some systems have certificates that cannot be used. The remaining ones are sufficient.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let message =
            "the system has no trusted authorities; name one with --cacert FILE, or use --insecure";
        return Err(PlanError::Value(message.to_owned()));
    }
    Ok(roots)
}

/// Accepts any certificate, but still verifies signatures, to detect a broken server.
#[derive(Debug)]
struct Anyone {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
