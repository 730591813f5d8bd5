//! Why a TLS handshake failed, in terms of certificates and settings.

use std::io;
use std::path::Path;

use rustls::{AlertDescription, CertificateError, InvalidMessage};

use super::expiry::Expiry;
use crate::stream::Stream;

/// Why a TLS handshake failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The client does not use TLS.
    #[error("the client does not use TLS; connect with TLS (`https`), or use a port without TLS")]
    NotTls {
        /// The plain stream. Its reads return everything that the client sent.
        stream: Box<Stream>,
    },
    /// The server does not use TLS.
    #[error("the server does not use TLS on this port; use its TLS port, or connect without TLS")]
    PlainServer,
    /// The peer was too slow.
    #[error("the TLS handshake took longer than {} ms", .0.as_millis())]
    Timeout(std::time::Duration),
    /// The peer closed the connection. A server that does not use TLS may do so.
    #[error("the peer closed the connection during the TLS handshake{fix}")]
    Closed {
        /// What to do, after a semicolon, or nothing.
        fix: &'static str,
    },
    /// The certificate of the peer is not acceptable.
    #[error("the certificate of {peer} {problem}")]
    Certificate {
        /// The server with its name, or the client.
        peer: String,
        /// What is wrong, and the fix.
        problem: String,
    },
    /// The client sent no certificate although one is required.
    #[error("the client sent no certificate; configure one that `client_ca` has signed")]
    NoClientCertificate,
    /// The host is not a name that can be verified.
    #[error("host `{0}`: a certificate cannot contain it; set `name` to one that it contains")]
    Name(String),
    /// The peer refused the handshake.
    #[error("the peer refused the TLS handshake with alert {alert:?}{fix}")]
    Refused {
        /// The reason (RFC 8446 §6.2).
        alert: AlertDescription,
        /// What to do, after a semicolon, or nothing.
        fix: &'static str,
    },
    /// The peer violates the protocol, or shares no version, cipher suite or protocol with us.
    #[error("the TLS handshake failed: {0}")]
    Tls(rustls::Error),
    /// The transport failed.
    #[error("the TLS handshake failed: {0}")]
    Io(io::Error),
}

/// The other side of a handshake.
pub(super) enum Peer<'a> {
    Client,
    Server(&'a str),
}

impl Peer<'_> {
    /// Converts the error of the TLS library.
    pub(super) fn failed(&self, error: io::Error) -> HandshakeError {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return self.closed();
        }
        let found = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match found {
            None => HandshakeError::Io(error),
            Some(rustls::Error::InvalidCertificate(reason)) => {
                self.certificate(self.problem(reason))
            }
            Some(rustls::Error::NoCertificatesPresented) => HandshakeError::NoClientCertificate,
            Some(rustls::Error::AlertReceived(alert)) => {
                HandshakeError::Refused { alert: *alert, fix: self.fix(*alert) }
            }
            Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType))
                if matches!(self, Peer::Server(_)) =>
            {
                HandshakeError::PlainServer
            }
            Some(other) => HandshakeError::Tls(other.clone()),
        }
    }

    pub(super) fn closed(&self) -> HandshakeError {
        let fix = match self {
            Peer::Client => "",
            Peer::Server(_) => "; check that its port uses TLS",
        };
        HandshakeError::Closed { fix }
    }

    /// Checks the certificate with which a resumed session began. A full handshake has verified the
    /// certificate, but a resumed one does not do it again.
    pub(super) fn check_resumed(&self, stream: &Stream) -> Result<(), HandshakeError> {
        let Some(tls) = stream.tls() else { return Ok(()) };
        if tls.handshake_kind() != Some(rustls::HandshakeKind::Resumed) {
            return Ok(());
        }
        let certificate = tls.peer_certificates().and_then(<[_]>::first);
        let expired = certificate
            .and_then(|certificate| Expiry::of(Path::new(""), certificate).ok())
            .is_some_and(|expiry| expiry.is_past());
        if expired {
            return Err(self.certificate(self.problem(&CertificateError::Expired)));
        }
        Ok(())
    }

    fn certificate(&self, problem: String) -> HandshakeError {
        let peer = match self {
            Peer::Client => "the client".to_owned(),
            Peer::Server(name) => format!("server `{name}`"),
        };
        HandshakeError::Certificate { peer, problem }
    }

    fn problem(&self, reason: &CertificateError) -> String {
        match reason {
            CertificateError::Expired => "has expired; renew it".to_owned(),
            CertificateError::ExpiredContext { time, not_after } => {
                let seconds = time.as_secs().saturating_sub(not_after.as_secs());
                format!("has expired {seconds} s ago; renew it")
            }
            CertificateError::NotValidYetContext { time, not_before } => {
                let seconds = not_before.as_secs().saturating_sub(time.as_secs());
                format!("becomes valid only in {seconds} s; check the clocks of both machines")
            }
            // A bad signature comes from an authority with a trusted name and another key.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                let field = if matches!(self, Peer::Client) { "client_ca" } else { "ca" };
                format!("is not from a trusted authority; add its authority to `{field}`")
            }
            CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
                "contains no name; issue it again with the server's name".to_owned()
            }
            CertificateError::NotValidForNameContext { presented, .. } => {
                let names = presented.join(", ");
                format!("is not valid for that name, only for {names}; set `name` to one of these")
            }
            other => format!("is not acceptable: {other}; issue it again"),
        }
    }

    fn fix(&self, alert: AlertDescription) -> &'static str {
        match (self, alert) {
            (Peer::Server(_), AlertDescription::CertificateRequired) => {
                "; set `cert_key` to a certificate that the server trusts"
            }
            (
                _,
                AlertDescription::BadCertificate
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::DecryptError
                | AlertDescription::UnknownCA,
            ) => "; it does not accept our certificate: check its names, authority and expiry",
            (_, AlertDescription::NoApplicationProtocol) => {
                "; it supports none of the protocols in `alpn`"
            }
            (_, AlertDescription::ProtocolVersion) => "; it supports neither TLS 1.2 nor TLS 1.3",
            _ => "",
        }
    }
}
