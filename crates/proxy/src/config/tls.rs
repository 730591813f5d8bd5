//! Resolves the settings of TLS. The files are loaded once, so that every error in them is reported
//! before the proxy starts.

use std::net::SocketAddr;
use std::path::PathBuf;

use curtail_config::{Given, OrFalse, Report, clash, each};
use curtail_net::{
    CertificateFiles, ClientAuth, ClientTls, ClientTlsSpec, ServerTls, ServerTlsSpec, TlsError,
};
use curtail_runtime::http::Protocol;

use super::raw;

const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

impl From<raw::Protocol> for Protocol {
    fn from(protocol: raw::Protocol) -> Self {
        match protocol {
            raw::Protocol::Http1 => Self::Http1,
            raw::Protocol::H2 | raw::Protocol::Grpc => Self::Http2,
            raw::Protocol::Auto => Self::Auto,
        }
    }
}

/// Resolves the listener for clients that use TLS. `taken` has the addresses of other listeners.
pub(super) fn listener(
    raw: &raw::Listen,
    taken: &[Option<SocketAddr>],
    report: &mut Report<'_>,
) -> Option<(SocketAddr, ServerTlsSpec)> {
    let (given, tls) = match (&raw.https, &raw.tls) {
        (Some(given), Some(tls)) => (given, tls),
        (Some(given), None) => {
            let fix = "add [listen.tls] with certificates = [{ cert = \"FILE\", key = \"FILE\" }]";
            report.error(&given.span(), "https is set, but there is no certificate", fix);
            return None;
        }
        (None, Some(tls)) => {
            let fix = "add https = \"IP:PORT\" to [listen], or remove tls";
            report.error(&tls.span(), "tls is set, but no address uses it", fix);
            return None;
        }
        (None, None) => return None,
    };
    let address = given.get().get();
    if taken.iter().flatten().any(|&other| clash(address, other)) {
        let fix = "give each listener its own port";
        report.error(&given.span(), "another listener already has this address", fix);
    }
    let spec = server(tls, report);
    Some((address, spec?))
}

fn server(given: &Given<raw::ListenTls>, report: &mut Report<'_>) -> Option<ServerTlsSpec> {
    let raw = given.get();
    let tables = each(raw.certificates.as_ref());
    let mut certificates = Vec::new();
    for (table, at) in &tables {
        match (&table.cert, &table.key) {
            (Some(cert), Some(key)) => certificates
                .push(CertificateFiles { cert: path(cert, report), key: path(key, report) }),
            _ => {
                let fix = "write { cert = \"FILE\", key = \"FILE\" }";
                report.missing(at, "this certificate lacks its cert or its key", fix);
                return None;
            }
        }
    }
    if certificates.is_empty() {
        let fix = "add certificates = [{ cert = \"FILE\", key = \"FILE\" }]";
        report.missing(&given.span(), "tls has no certificate", fix);
        return None;
    }
    let client_auth = match raw.client_auth {
        raw::ClientAuth::None => ClientAuth::None,
        raw::ClientAuth::Optional => ClientAuth::Optional,
        raw::ClientAuth::Required => ClientAuth::Required,
    };
    let client_ca = raw.client_ca.as_ref().map(|given| path(given, report));
    let alpn = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    let spec = ServerTlsSpec { certificates, client_auth, client_ca, alpn };
    loads(ServerTls::load(&spec).map(drop), given, report).then_some(spec)
}

/// Resolves TLS towards replicas.
pub(super) fn upstream(
    service: &raw::Service,
    protocol: Protocol,
    report: &mut Report<'_>,
) -> Option<ClientTlsSpec> {
    let Some((given, OrFalse::On(raw))) = service.tls.as_ref().map(|given| (given, given.get()))
    else {
        if let Some(at) = service.protocol.span().filter(|_| protocol == Protocol::Auto) {
            let wrong = "protocol = \"auto\" needs TLS, because replicas choose in its handshake";
            report.error(&at, wrong, "add tls = {}, or write \"http1\" or \"h2\"");
        }
        return None;
    };
    let cert_key = match (&raw.cert, &raw.key) {
        (Some(cert), Some(key)) => {
            Some(CertificateFiles { cert: path(cert, report), key: path(key, report) })
        }
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => {
            report.error(&one.span(), "cert and key belong together", "set both, or neither");
            None
        }
    };
    let alpn = match protocol {
        Protocol::Http1 => vec![HTTP1.to_vec()],
        Protocol::Http2 => vec![HTTP2.to_vec()],
        Protocol::Auto => vec![HTTP2.to_vec(), HTTP1.to_vec()],
    };
    let ca = raw.ca.as_ref().map(|given| path(given, report));
    let name = raw.name.as_ref().map(|given| given.get().clone());
    let spec = ClientTlsSpec { ca, name, cert_key, alpn };
    loads(ClientTls::load(&spec).map(drop), given, report).then_some(spec)
}

fn path(given: &Given<String>, report: &Report<'_>) -> PathBuf {
    report.folder().join(given.get())
}

/// Reports the error of files that cannot be loaded.
fn loads<T>(loaded: Result<(), TlsError>, given: &Given<T>, report: &mut Report<'_>) -> bool {
    match loaded {
        Ok(()) => true,
        Err(error) => {
            let (wrong, fix) = match &error {
                TlsError::File { file, problem, fix } => {
                    (format!("{} {problem}", file.display()), fix.to_string())
                }
                error => ("tls cannot be set up".to_owned(), error.to_string()),
            };
            report.error(&given.span(), &wrong, &fix);
            false
        }
    }
}
