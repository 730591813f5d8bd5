//! Tests of the server's side of TLS: certificates by name, ALPN, certificates of clients,
//! resumption, clients without TLS, errors in files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use curtail_net::{
    CertificateFiles, ClientAuth, ClientTls, ClientTlsSpec, HandshakeError, Listener, ServerTls,
    ServerTlsSpec, connect,
};
use rustls::SignatureScheme;
use rustls::client::{Resumption, Tls12Resumption};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

use crate::common::{Authority, Connected, Handshake, LONG, assert_contains, der, plain, server};

#[tokio::test]
async fn the_requested_name_chooses_the_certificate() {
    let authority = Authority::new();
    let default = authority.issue(&["default.test", "127.0.0.1"]);
    let exact = authority.issue(&["A.one.test"]);
    let wildcard = authority.issue(&["*.one.test", "two.test"]);
    let server = server(&[default.clone(), wildcard.clone(), exact.clone()]);
    let client = authority.client();
    for (host, files) in [
        ("default.test", &default),
        ("a.one.test", &exact),
        ("A.ONE.test", &exact),
        ("b.one.test", &wildcard),
        ("two.test", &wildcard),
        // IP addresses are not requested, so the server uses its default.
        ("127.0.0.1", &default),
    ] {
        let mut connected = Handshake::new(&client, &server, host).await.unwrap();
        connected.exchange().await;
        assert_eq!(connected.certificate(), der(&files.cert), "{host}");
        let name = (host != "127.0.0.1").then(|| host.to_ascii_lowercase());
        assert_eq!(connected.server.server_name(), name.as_deref());
        assert!(connected.server.is_tls() && connected.client.is_tls());
    }
    // A wildcard stands for one label, so this client gets the default.
    let error = Handshake::new(&client, &server, "a.b.one.test").await.client_error();
    assert_contains(&error, &["server `a.b.one.test`", "only for", "default.test"]);
}

/// Returns a client that does not support keys of this scheme.
fn client_without(scheme: SignatureScheme, trusted: &Path) -> TlsConnector {
    let mut provider = rustls::crypto::ring::default_provider();
    let algorithms = &mut provider.signature_verification_algorithms;
    let left = algorithms.mapping.iter().filter(|(known, _)| *known != scheme).copied();
    algorithms.mapping = Vec::leak(left.collect());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(der(trusted).into()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

#[tokio::test]
async fn a_client_gets_a_certificate_whose_key_it_supports() {
    let authority = Authority::new();
    let p256 = authority.issue(&["localhost"]);
    let ed25519 = authority.issue_for(&rcgen::PKCS_ED25519, &["LOCALHOST"]);
    let server = server(&[ed25519.clone(), p256.clone()]);
    for (unsupported, chosen) in
        [(SignatureScheme::ED25519, &p256), (SignatureScheme::ECDSA_NISTP256_SHA256, &ed25519)]
    {
        let connector = client_without(unsupported, &authority.ca());
        let [client, accepted] = plain().await;
        let connecting = connector.connect("localhost".try_into().unwrap(), client);
        let (client, accepted) = tokio::join!(connecting, server.accept(accepted, LONG));
        accepted.unwrap();
        let client = client.unwrap();
        let seen = client.get_ref().1.peer_certificates().unwrap();
        assert_eq!(seen[0].to_vec(), der(&chosen.cert));
    }
}

#[tokio::test]
async fn both_sides_agree_on_a_protocol() {
    let authority = Authority::new();
    let spec = ServerTlsSpec {
        certificates: vec![authority.issue(&["localhost"])],
        alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        ..ServerTlsSpec::default()
    };
    let server = ServerTls::load(&spec).unwrap();
    let client = |protocols: &[&str]| {
        let alpn = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        ClientTls::load(&ClientTlsSpec { alpn, ..authority.client_spec() }).unwrap()
    };
    for (offered, chosen) in [
        (&["http/1.1", "h2"][..], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        // Clients without ALPN are accepted.
        (&[], None),
    ] {
        let connected = Handshake::new(&client(offered), &server, "localhost").await.unwrap();
        assert_eq!(connected.client.alpn(), chosen.map(str::as_bytes));
        assert_eq!(connected.server.alpn(), connected.client.alpn());
    }
    let error = Handshake::new(&client(&["spdy"]), &server, "localhost").await.client_error();
    assert_contains(&error, &["NoApplicationProtocol", "none of the protocols in `alpn`"]);
}

/// A server whose clients have an authority of their own.
struct Mutual {
    server: Authority,
    clients: Authority,
    tls: ServerTls,
}

impl Mutual {
    fn new(client_auth: ClientAuth) -> Mutual {
        let [server, clients] = [Authority::new(), Authority::new()];
        let spec = ServerTlsSpec {
            certificates: vec![server.issue(&["localhost"])],
            client_auth,
            client_ca: Some(clients.ca()),
            ..ServerTlsSpec::default()
        };
        let tls = ServerTls::load(&spec).unwrap();
        Mutual { server, clients, tls }
    }

    /// Connects a client with this certificate.
    async fn connect(&self, cert_key: Option<CertificateFiles>) -> Handshake {
        let spec = ClientTlsSpec { cert_key, ..self.server.client_spec() };
        Handshake::new(&ClientTls::load(&spec).unwrap(), &self.tls, "localhost").await
    }
}

#[tokio::test]
async fn a_required_certificate_must_come_from_the_right_authority() {
    let mutual = Mutual::new(ClientAuth::Required);
    let files = mutual.clients.issue(&["client.test"]);
    let mut connected = mutual.connect(Some(files.clone())).await.unwrap();
    connected.exchange().await;
    let seen = connected.server.tls().unwrap().peer_certificates().unwrap();
    assert_eq!(seen[0].to_vec(), der(&files.cert));

    let missing = mutual.connect(None).await;
    assert!(matches!(missing.server, Err(HandshakeError::NoClientCertificate)), "{missing:?}");
    // In TLS 1.3 the client learns of the refusal with its first read.
    let error = missing.client.unwrap().read(&mut [0]).await.unwrap_err();
    assert_contains(&error.to_string(), &["CertificateRequired"]);

    let wrong = mutual.connect(Some(Authority::new().issue(&["client.test"]))).await;
    let error = wrong.server.unwrap_err().to_string();
    assert_contains(&error, &["the client", "not from a trusted authority", "`client_ca`"]);

    let old = std::time::SystemTime::now() - Duration::from_secs(1000);
    let expired = mutual.connect(Some(mutual.clients.issue_until(&["client.test"], old))).await;
    let error = expired.server.unwrap_err().to_string();
    assert_contains(&error, &["the certificate of the client has expired", "renew it"]);
}

#[tokio::test]
async fn an_optional_certificate_may_be_missing_but_not_wrong() {
    let mutual = Mutual::new(ClientAuth::Optional);
    let mut without = mutual.connect(None).await.unwrap();
    without.exchange().await;
    assert!(without.server.tls().unwrap().peer_certificates().is_none());
    let with = mutual.connect(Some(mutual.clients.issue(&["client.test"]))).await.unwrap();
    assert_eq!(with.server.tls().unwrap().peer_certificates().map(<[_]>::len), Some(1));
    let wrong = mutual.connect(Some(Authority::new().issue(&["client.test"]))).await;
    assert!(matches!(wrong.server, Err(HandshakeError::Certificate { .. })), "{wrong:?}");
}

#[tokio::test]
async fn a_second_connection_resumes_the_session() {
    let mutual = Mutual::new(ClientAuth::Required);
    let spec = ClientTlsSpec {
        cert_key: Some(mutual.clients.issue(&["client.test"])),
        ..mutual.server.client_spec()
    };
    let client = ClientTls::load(&spec).unwrap();
    let mut first = Handshake::new(&client, &mutual.tls, "localhost").await.unwrap();
    assert!(!first.is_resumed());
    first.exchange().await;
    let mut second = Handshake::new(&client, &mutual.tls, "localhost").await.unwrap();
    assert!(second.is_resumed());
    second.exchange().await;
    // The server still has the identity of the client.
    let seen = second.server.tls().unwrap().peer_certificates().unwrap();
    assert_eq!(seen[0].to_vec(), der(&spec.cert_key.unwrap().cert));
}

#[tokio::test]
async fn tls_1_2_clients_resume_by_ticket_and_by_session() {
    let authority = Authority::new();
    let server = authority.server();
    for kind in [Tls12Resumption::SessionIdOrTickets, Tls12Resumption::SessionIdOnly] {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(der(&authority.ca()).into()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS12])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(1).tls12_resumption(kind);
        let connector = TlsConnector::from(Arc::new(config));
        for resumed in [false, true] {
            let [client, accepted] = plain().await;
            let name = "localhost".try_into().unwrap();
            let (client, accepted) =
                tokio::join!(connector.connect(name, client), server.accept(accepted, LONG));
            let (client, accepted) = (client.unwrap(), accepted.unwrap());
            let tls = accepted.tls().unwrap();
            assert_eq!(tls.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
            let seen = tls.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
            assert_eq!(seen, resumed);
            drop(client);
        }
    }
}

#[tokio::test]
async fn plain_http_comes_back_with_all_its_bytes() {
    let server = Authority::new().server();
    let [mut client, accepted] = plain().await;
    let peer = accepted.peer();
    let request = format!("GET / HTTP/1.1\r\nhost: x\r\n\r\n{}", "b".repeat(5000));
    client.write_all(request.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    let error = server.accept(accepted, LONG).await.unwrap_err();
    assert_contains(&error.to_string(), &["does not use TLS", "connect with TLS"]);
    let HandshakeError::NotTls { mut stream } = error else { panic!("{error}") };
    assert!(!stream.is_tls());
    assert_eq!(stream.peer(), peer);
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, request);
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    drop(stream);
    text.clear();
    client.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 400"));
}

#[tokio::test]
async fn silent_closed_and_broken_clients_fail_differently() {
    let server = Authority::new().server();
    let [client, accepted] = plain().await;
    let error = server.accept(accepted, Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, HandshakeError::Timeout(Duration::ZERO)), "{error}");
    assert_contains(&error.to_string(), &["longer than 0 ms"]);
    drop(client);

    let [client, accepted] = plain().await;
    drop(client);
    let error = server.accept(accepted, LONG).await.unwrap_err();
    assert!(matches!(error, HandshakeError::Closed { .. }), "{error}");

    // A PROXY header that is not expected here.
    let [mut client, accepted] = plain().await;
    client.write_all(&curtail_net::proxy_protocol::Header::Local.to_bytes()).await.unwrap();
    let error = server.accept(accepted, LONG).await.unwrap_err();
    assert!(matches!(error, HandshakeError::NotTls { .. }), "{error}");

    // The head of a record, and then the end of the stream.
    let [mut client, accepted] = plain().await;
    client.write_all(&[22, 3, 1, 0, 100]).await.unwrap();
    client.shutdown().await.unwrap();
    let error = server.accept(accepted, LONG).await.unwrap_err();
    assert!(matches!(error, HandshakeError::Closed { .. }), "{error}");

    // A record that is not a handshake message.
    let [mut client, accepted] = plain().await;
    client.write_all(&[22, 3, 1, 0, 4, 99, 0, 0, 0]).await.unwrap();
    let error = server.accept(accepted, LONG).await.unwrap_err();
    assert!(matches!(error, HandshakeError::Tls(_)), "{error}");
    // The client gets an alert.
    let mut alert = [0; 3];
    client.read_exact(&mut alert).await.unwrap();
    assert_eq!(alert, [21, 3, 3]);
}

/// Connections are served by tasks, which move between threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_and_watches_run_in_tasks() {
    let authority = Authority::new();
    let (client, server) = (authority.client(), authority.server());
    let [connecting, accepted] = plain().await;
    let watches = [
        tokio::spawn({
            let server = server.clone();
            async move { server.watch(LONG, |event| panic!("{event:?}")).await }
        }),
        tokio::spawn({
            let client = client.clone();
            async move { client.watch(LONG, |event| panic!("{event:?}")).await }
        }),
    ];
    let accepted = tokio::spawn(async move { server.accept(accepted, LONG).await });
    let client = tokio::spawn(async move { client.connect(connecting, "localhost").await });
    let [client, server] = [client.await.unwrap(), accepted.await.unwrap()];
    Handshake { client, server }.unwrap().exchange().await;
    watches.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn tls_works_over_unix_sockets_and_options_reach_the_socket() {
    let authority = Authority::new();
    let server = authority.server();
    let client = authority.client();
    let endpoint = curtail_net::Endpoint::Unix(authority.path("x.sock"));
    let listener = Listener::bind(&endpoint).unwrap();
    let (connecting, accepted) = tokio::join!(connect(&endpoint), listener.accept());
    let streams = [connecting.unwrap(), accepted.unwrap()];
    let mut connected = Handshake::over(streams, &client, &server, "localhost").await.unwrap();
    connected.exchange().await;
    assert_eq!(connected.client.peer(), Some(endpoint));
    connected.server.set_zero_linger().unwrap();

    let Connected { mut client, server } =
        Handshake::new(&client, &server, "localhost").await.unwrap();
    assert_eq!(client.peer(), server.local());
    assert_eq!(server.peer(), client.local());
    server.set_nodelay().unwrap();
    server.set_type_of_service(0x20).unwrap();
    assert_eq!(rustix::net::sockopt::ip_tos(&server).unwrap(), 0x20);
    let error = server.try_write(b"x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    server.set_zero_linger().unwrap();
    drop(server);
    let error = client.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn errors_in_files_contain_the_file_and_the_fix() {
    let authority = Authority::new();
    let good = authority.issue(&["localhost"]);
    let other = authority.issue(&["other.test"]);
    let write = |name: &str, text: &str| {
        std::fs::write(authority.path(name), text).unwrap();
        authority.path(name)
    };
    let text = std::fs::read_to_string(&good.cert).unwrap();
    let cut = write("cut.pem", &text[..text.len() / 2]);
    let empty = write("empty.pem", "no PEM\n");
    let wrong_cert =
        write("bad.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let wrong_key =
        write("bad.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    let missing = authority.path("missing.pem");
    let CertificateFiles { cert, key } = good.clone();
    for (cert, key, file, fix) in [
        (&missing, &key, "missing.pem", "cannot be read: No such file"),
        (&cert, &missing, "missing.pem", "check the path and its permissions"),
        (&empty, &key, "empty.pem", "no certificate in PEM; use a file with `-----BEGIN CERT"),
        (&key, &key, "localhost.key", "no certificate in PEM"),
        (&cut, &key, "cut.pem", "is not valid PEM"),
        (&wrong_cert, &key, "bad.pem", "cannot be used"),
        (&cert, &cert, "localhost.pem", "no private key in PEM; use a file with"),
        (&cert, &wrong_key, "bad.key", "a private key that cannot be used"),
        (&cert, &other.key, "other.test.key", "does not match the first certificate of"),
    ] {
        let certificates = vec![CertificateFiles { cert: cert.clone(), key: key.clone() }];
        let spec = ServerTlsSpec { certificates, ..ServerTlsSpec::default() };
        let error = ServerTls::load(&spec).unwrap_err().to_string();
        let path = authority.path(file);
        assert!(error.starts_with(&format!("{}: ", path.display())), "{error}");
        assert_contains(&error, &[fix]);
        let cert_key = Some(spec.certificates[0].clone());
        let spec = ClientTlsSpec { cert_key, ..authority.client_spec() };
        assert_eq!(ClientTls::load(&spec).unwrap_err().to_string(), error);
    }
    let load = |spec: ServerTlsSpec| ServerTls::load(&spec).unwrap_err().to_string();
    assert_contains(&load(ServerTlsSpec::default()), &["`certificates` is empty; add one"]);
    let spec = ServerTlsSpec { certificates: vec![good], ..ServerTlsSpec::default() };
    let unused = ServerTlsSpec { client_ca: Some(authority.ca()), ..spec.clone() };
    assert_contains(&load(unused), &["`client_ca` has no effect"]);
    let alone = ServerTlsSpec { client_auth: ClientAuth::Required, ..spec.clone() };
    assert_contains(&load(alone), &["`client_auth` needs `client_ca`"]);
    let client_auth = ClientAuth::Required;
    let bad = ServerTlsSpec { client_auth, client_ca: Some(wrong_cert), ..spec };
    assert_contains(&load(bad), &["bad.pem: contains a certificate that cannot be used"]);
}
