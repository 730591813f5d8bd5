//! Tests of TLS: trust, negotiation, and the error messages.

use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{MS, Server, measure};
use curtail_load::{Errors, Plan, Report, Trust};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio_rustls::TlsAcceptor;

/// The server's side of TLS, and the file with the certificate authority to trust.
struct Secure {
    acceptor: TlsAcceptor,
    authority: PathBuf,
    _directory: TempDir,
}

impl Secure {
    /// Creates the certificate of a server with this name. An authority signs it. If `by_itself` is
    /// true, it is the authority's own certificate instead.
    fn new(name: &str, by_itself: bool, protocols: &[&str]) -> Secure {
        let names = if by_itself { vec![name.to_owned()] } else { Vec::new() };
        let mut params = CertificateParams::new(names).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let mut key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap();
        let mut certificate = authority.der().clone();
        if !by_itself {
            let issuer = Issuer::new(params, key);
            key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            certificate = params.signed_by(&key, &issuer).unwrap().der().clone();
        }
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], private)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("authority.pem");
        std::fs::write(&file, authority.pem()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Secure { acceptor, authority: file, _directory: directory }
    }

    /// Serves HTTP/2 if it was negotiated. Otherwise each response has the number of bytes in the
    /// request's path.
    async fn serve(&self) -> Server {
        let acceptor = self.acceptor.clone();
        Server::start(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    return crate::common::serve_http2(stream).await;
                }
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).await.is_ok_and(|count| count > 0) {
                    if let Some(path) = line.strip_prefix("GET /") {
                        let Ok(length) = path.split(' ').next().unwrap().parse() else { return };
                        let body = "x".repeat(length);
                        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
                        stream.write_all((head + &body).as_bytes()).await.unwrap();
                        stream.flush().await.unwrap();
                    }
                    line.clear();
                }
            }
        })
        .await
    }

    fn plan(&self, server: &Server, requests: u64, paths: &[&str]) -> Plan {
        let mut plan = server.plan(200.0, requests);
        plan.target = format!("https://{}/5", server.address).parse().unwrap();
        plan.protocol.trust = Trust::File(self.authority.clone());
        plan.queries = paths.iter().map(|path| (*path).to_owned()).collect();
        (plan.connections, plan.timeout_ns) = (2, 5_000 * MS);
        plan
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn https_responds_and_keeps_its_connections() {
    let secure = Secure::new("127.0.0.1", false, &["h2", "http/1.1"]);
    let server = secure.serve().await;
    let mut plan = secure.plan(&server, 60, &["/5", "/0", "/300000"]);
    let report = measure(&plan).await;
    assert_eq!((report.errors.total(), report.histogram.len()), (0, 60), "{report:?}");
    assert!(server.accepted() <= 2);
    plan.protocol.trust = Trust::Anyone;
    assert_eq!(measure(&plan).await.errors.total(), 0);
    (plan.protocol.http2, plan.connections) = (true, 1);
    plan.queries = vec![r#"{"path": "/b", "body": "text"}"#.to_owned()];
    let before = server.accepted();
    let report = measure(&plan).await;
    assert_eq!((report.errors.total(), server.accepted() - before), (0, 1), "{report:?}");
    // The server closes the connection after the handshake.
    let plan = secure.plan(&server, 20, &["/5", "/dies"]);
    assert_eq!(measure(&plan).await.errors, Errors { reset: 10, ..Errors::default() });
}

fn first_without_tls(report: Report) -> String {
    let first = report.failures.expect("no protocol is negotiated").first;
    assert_eq!(report.errors, Errors { tls: 3, ..Errors::default() }, "{first}");
    assert!(report.errors.to_string().contains("3 without TLS"));
    first
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_tls_handshake_is_reported_with_the_fix() {
    let secure = Secure::new("127.0.0.1", false, &[]);
    for (of_server, trusts_other, http2, texts) in [
        (Secure::new("127.0.0.1", false, &[]), true, false, ["is not trusted", "--cacert"]),
        (Secure::new("127.0.0.1", true, &[]), false, false, ["CA:FALSE", "--insecure"]),
        (Secure::new("elsewhere.example", false, &[]), false, false, ["for another name", ""]),
        (Secure::new("127.0.0.1", false, &["http/1.1"]), false, true, ["leave out --http2", ""]),
        (Secure::new("127.0.0.1", false, &[]), false, true, ["leave out --http2", ""]),
    ] {
        let server = of_server.serve().await;
        let client = if trusts_other { &secure } else { &of_server };
        let mut plan = client.plan(&server, 3, &[]);
        plan.protocol.http2 = http2;
        let first = first_without_tls(measure(&plan).await);
        assert!(texts.iter().all(|text| first.contains(text)), "{first}");
    }
    // The system does not trust this authority either.
    let server = secure.serve().await;
    let mut plan = secure.plan(&server, 3, &[]);
    plan.protocol.trust = Trust::System;
    if plan.check().is_ok() {
        first_without_tls(measure(&plan).await);
    }
}

#[test]
fn a_file_without_authorities_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("authority.pem");
    let refused = || {
        let mut plan = Plan::new("https://h".parse().unwrap(), 1.0);
        plan.protocol.trust = Trust::File(file.clone());
        plan.check().unwrap_err().to_string()
    };
    let missing = refused();
    assert!(missing.contains("authority.pem") && missing.contains("check the path"), "{missing}");
    std::fs::write(&file, "nothing").unwrap();
    let empty = refused();
    assert!(empty.contains("no certificate"), "{empty}");
}
