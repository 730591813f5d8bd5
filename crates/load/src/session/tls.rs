//! TLS (RFC 8446, RFC 5246) around another protocol's session: its configuration, and the session.
//!
//! Requests are held back until the handshake completes. Then their bytes go through `rustls`,
//! which does no I/O either. Cost: one handshake per connection, which takes a few hundred
//! microseconds of CPU time on the sending thread, and then one pass over all bytes.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf as _, BufMut as _, BytesMut};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct,
    Error, RootCertStore, SignatureScheme,
};

use crate::plan::Plan;
use crate::plan::error::{PlanError, refuse};
use crate::plan::protocol::Trust;
use crate::session::fault::Fault;
use crate::session::{Out, Session, Token};

#[derive(Debug)]
pub(crate) struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    http2: bool,
}

impl TlsClient {
    pub(crate) fn prepare(plan: &Plan) -> Result<TlsClient, PlanError> {
        let provider = Arc::new(ring::default_provider());
        let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| PlanError::Value(format!("TLS cannot be set up: {error}")))?;
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
            PlanError::Value(format!("host `{host}` is not a name that a certificate can contain"))
        })?;
        let client = TlsClient { config: Arc::new(config), name, http2 };
        // Detects failures before the run that would otherwise occur on every connection.
        client
            .open()
            .map_err(|error| PlanError::Value(format!("TLS cannot be set up: {error}")))?;
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
        return refuse(
            "the system has no trusted authorities; name one with --cacert FILE, or use --insecure",
        );
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

/// The size of a plaintext read, which is one record.
const READ_BYTES: usize = 16 << 10;
/// Content types of records (RFC 8446 §5.1).
const RECORDS: std::ops::RangeInclusive<u8> = 20..=23;

pub(crate) struct Tls {
    tls: ClientConnection,
    inner: Box<dyn Session>,
    http2: bool,
    has_received: bool,
    handshake_done: bool,
    closed: bool,
    /// Plaintext that the inner session has not consumed yet, and plaintext that is not encrypted
    /// yet.
    input: BytesMut,
    output: BytesMut,
}

impl Tls {
    pub(crate) fn new(tls: ClientConnection, inner: Box<dyn Session>, http2: bool) -> Tls {
        let (input, output) = (BytesMut::new(), BytesMut::new());
        Tls {
            tls,
            inner,
            http2,
            has_received: false,
            handshake_done: false,
            closed: false,
            input,
            output,
        }
    }

    /// Calls the inner session and redirects its output to the encrypter.
    fn within<T>(
        &mut self,
        out: &mut Out,
        call: impl FnOnce(&mut dyn Session, &mut Out) -> T,
    ) -> T {
        std::mem::swap(&mut self.output, &mut out.bytes);
        let result = call(&mut *self.inner, out);
        std::mem::swap(&mut self.output, &mut out.bytes);
        result
    }

    /// Encrypts pending output, and appends the records to `out`.
    fn write(&mut self, out: &mut BytesMut) -> Result<(), Fault> {
        loop {
            if self.handshake_done && !self.output.is_empty() {
                let taken = self
                    .tls
                    .writer()
                    .write(&self.output)
                    .map_err(|error| Fault::Io(error.into()))?;
                self.output.advance(taken);
            }
            while self.tls.wants_write() {
                self.tls.write_tls(&mut out.writer()).map_err(|error| Fault::Io(error.into()))?;
            }
            if !self.handshake_done || self.output.is_empty() {
                return Ok(());
            }
        }
    }

    /// Appends decrypted bytes to the inner session's input.
    fn read(&mut self) -> Result<(), Fault> {
        let mut buffer = [0; READ_BYTES];
        loop {
            match self.tls.reader().read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Fault::of(error)),
            }
        }
    }

    fn finish_handshake(&mut self) -> Result<(), Fault> {
        if self.handshake_done || self.tls.is_handshaking() {
            return Ok(());
        }
        self.handshake_done = true;
        if self.http2 && self.tls.alpn_protocol() != Some(b"h2") {
            let message = "the server did not agree to HTTP/2 (ALPN); leave out --http2";
            return Err(Fault::Tls(message.to_owned()));
        }
        Ok(())
    }

    /// Processes received bytes, up to a limit that `rustls` sets.
    fn step(&mut self, input: &mut BytesMut, out: &mut Out) -> Result<(), Fault> {
        if self.tls.read_tls(&mut input.reader()).map_err(|error| Fault::Io(error.into()))? == 0 {
            // The peer has sent close_notify. Bytes after it are ignored.
            input.clear();
        }
        let state = self.tls.process_new_packets();
        if let Ok(state) = &state {
            self.closed |= state.peer_has_closed();
            self.finish_handshake()?;
        }
        // Data that arrived before the error is valid.
        self.read()?;
        let mut plain = std::mem::take(&mut self.input);
        let received = if plain.is_empty() {
            Ok(())
        } else {
            self.within(out, |inner, out| inner.receive(&mut plain, out))
        };
        self.input = plain;
        self.write(&mut out.bytes)?;
        received?;
        // The inner session's output accumulates here.
        out.check()?;
        state.map_err(|error| Fault::Tls(self.explain(&error)))?;
        Ok(())
    }

    fn explain(&self, error: &Error) -> String {
        match error {
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => format!(
                "the server's certificate is for another name ({error}); use that name, or --insecure"
            ),
            Error::InvalidCertificate(why) if format!("{why:?}").contains("CaUsedAsEndEntity") => {
                "the server's certificate belongs to an authority, not to a server; create one \
                 with basicConstraints=CA:FALSE, or use --insecure"
                    .to_owned()
            }
            Error::InvalidCertificate(why) => format!(
                "the server's certificate is not trusted ({why}); name its authority with --cacert FILE, or \
                 use --insecure"
            ),
            Error::AlertReceived(AlertDescription::NoApplicationProtocol) if self.http2 => {
                "the server did not agree to HTTP/2 (ALPN); leave out --http2".to_owned()
            }
            Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                "the server did not agree to HTTP/1.1 (ALPN); add --http2".to_owned()
            }
            Error::AlertReceived(alert) => format!("the server refused ({alert:?})"),
            error => error.to_string(),
        }
    }

    fn closed_fault(&self) -> Fault {
        if self.handshake_done {
            return Fault::Closed;
        }
        let advice = if self.has_received {
            ""
        } else {
            "; if it does not use TLS, leave out the s of the scheme"
        };
        Fault::Tls(format!("the server closed the connection during the TLS handshake{advice}"))
    }
}

impl Session for Tls {
    fn capacity(&self) -> usize {
        self.inner.capacity()
    }

    fn send(&mut self, query: usize, token: Token, out: &mut Out) {
        self.within(out, |inner, out| inner.send(query, token, out));
        // Writing to memory cannot fail. The next read reports encryption errors.
        let _ = self.write(&mut out.bytes);
    }

    fn receive(&mut self, input: &mut BytesMut, out: &mut Out) -> Result<(), Fault> {
        if let Some(first) = input.first().filter(|_| !self.has_received) {
            self.has_received = true;
            if !RECORDS.contains(first) {
                let message = "the server does not use TLS; leave out the s of the scheme";
                return Err(Fault::Tls(message.to_owned()));
            }
        }
        while !input.is_empty() {
            self.step(input, out)?;
        }
        // The peer may leave TCP open, but sends nothing after close_notify (RFC 8446 §6.1).
        if self.closed { Err(self.end(out)) } else { Ok(()) }
    }

    fn end(&mut self, out: &mut Out) -> Fault {
        if !self.handshake_done {
            return self.closed_fault();
        }
        // Without close_notify, an attacker may have closed the connection. A body that ends with
        // the connection may therefore be truncated (RFC 9112 §9.8). HTTP/2 has no such bodies.
        if self.closed || self.http2 {
            self.within(out, |inner, out| inner.end(out))
        } else {
            self.inner.cut(Fault::Closed)
        }
    }

    fn cut(&self, fault: Fault) -> Fault {
        match fault {
            Fault::Closed if !self.handshake_done => self.closed_fault(),
            fault => self.inner.cut(fault),
        }
    }

    fn abandon(&mut self, token: Token, out: &mut Out) -> bool {
        let usable = self.within(out, |inner, out| inner.abandon(token, out));
        usable && self.write(&mut out.bytes).is_ok()
    }

    fn reusable(&self) -> bool {
        self.inner.reusable()
    }

    fn holds(&self) -> bool {
        !self.handshake_done
    }
}
