//! The wires between the cell and the servers of a scenario: a version of HTTP, with or without TLS.

use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use curtail_net::{CertificateFiles, ClientTls, ClientTlsSpec, ServerTls, ServerTlsSpec, Stream};
use curtail_runtime::http::{Protocol, Replica};

const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

/// How the cell reaches servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// HTTP/1.1 over TCP.
    Http1,
    /// HTTP/2 over TCP, by prior knowledge.
    Http2,
    /// TLS. The handshake chooses HTTP/2 for servers with even numbers, and HTTP/1.1 for the others.
    Tls,
}

impl Wire {
    pub const ALL: [Self; 3] = [Self::Http1, Self::Http2, Self::Tls];

    /// Returns whether a server uses HTTP/2.
    pub fn is_http2(self, server: u32) -> bool {
        match self {
            Self::Http1 => false,
            Self::Http2 => true,
            Self::Tls => server.is_multiple_of(2),
        }
    }

    /// Returns how the transport reaches a server. With TLS, the transport offers both versions.
    pub fn replica(self, address: SocketAddr) -> Replica {
        let (protocol, tls) = match self {
            Self::Http1 => (Protocol::Http1, None),
            Self::Http2 => (Protocol::Http2, None),
            Self::Tls => (Protocol::Auto, Some(TLS.client.clone())),
        };
        Replica { protocol, tls, ..Replica::from(address) }
    }

    /// Does the server's side of the TLS handshake, if this wire uses TLS.
    pub async fn accept(self, stream: Stream, server: u32, most: Duration) -> Option<Stream> {
        let tls = match (self, self.is_http2(server)) {
            (Self::Http1 | Self::Http2, _) => return Some(stream),
            (Self::Tls, true) => &TLS.http2,
            (Self::Tls, false) => &TLS.http1,
        };
        tls.accept(stream, most).await.ok()
    }
}

/// Loaded once, because scenarios are many and keys take time.
static TLS: LazyLock<Tls> = LazyLock::new(Tls::new);

struct Tls {
    client: ClientTls,
    http1: ServerTls,
    http2: ServerTls,
}

impl Tls {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a name");
        let files = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        std::fs::write(&files[0], own.cert.pem()).expect("a file");
        std::fs::write(&files[1], own.signing_key.serialize_pem()).expect("a file");
        let [cert, key] = files;
        let (ca, alpn) = (Some(cert.clone()), vec![HTTP2.to_vec(), HTTP1.to_vec()]);
        let client = ClientTls::load(&ClientTlsSpec { ca, alpn, ..ClientTlsSpec::default() });
        let certificates = vec![CertificateFiles { cert, key }];
        let server = |protocol: &[u8]| {
            let (certificates, alpn) = (certificates.clone(), vec![protocol.to_vec()]);
            let spec = ServerTlsSpec { certificates, alpn, ..ServerTlsSpec::default() };
            ServerTls::load(&spec).expect("a certificate")
        };
        Self { client: client.expect("an authority"), http1: server(HTTP1), http2: server(HTTP2) }
    }
}
