//! Tests TLS on both sides, and replicas by name and by path.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use curtail_net::{
    CertificateFiles, ClientAuth, ClientTls, ClientTlsSpec, HandshakeError, ServerTls,
    ServerTlsSpec, Stream,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener};

use crate::harness::http2::{Backend2, Http2Client};
use crate::harness::{Backend, Client, HELLO, Proxy, Shared, TestServer, eventually, within};

const LONG: Duration = Duration::from_secs(60);

/// An authority that issues certificates into a temporary directory.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Test Authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let folder = tempfile::tempdir().expect("a folder");
        let certificate = params.self_signed(&key).expect("a certificate");
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).expect("a file");
        Self { issuer: Issuer::new(params, key), folder }
    }

    fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Issues a certificate for this name.
    fn issue(&self, name: &str) -> CertificateFiles {
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let file = |end: &str| self.folder.path().join(format!("{name}.{end}"));
        let files = CertificateFiles { cert: file("pem"), key: file("key") };
        std::fs::write(&files.cert, certificate.pem()).expect("a file");
        std::fs::write(&files.key, key.serialize_pem()).expect("a file");
        files
    }

    /// Returns a client that trusts this authority.
    fn client(&self, alpn: &[&str], cert_key: Option<CertificateFiles>) -> ClientTls {
        let alpn = protocols(alpn);
        let spec = ClientTlsSpec { ca: Some(self.ca()), cert_key, alpn, ..Default::default() };
        ClientTls::load(&spec).expect("it loads")
    }

    fn server(&self, name: &str, alpn: &[&str], client_auth: ClientAuth) -> ServerTls {
        let certificates = vec![self.issue(name)];
        let client_ca = (client_auth != ClientAuth::None).then(|| self.ca());
        let spec = ServerTlsSpec { certificates, client_auth, client_ca, alpn: protocols(alpn) };
        ServerTls::load(&spec).expect("it loads")
    }
}

fn protocols(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
}

fn quoted(path: &Path) -> String {
    format!("{:?}", path.to_str().expect("UTF-8"))
}

/// Returns lines for `[listen]`.
fn listen(files: &CertificateFiles, more: &str) -> String {
    let (cert, key) = (quoted(&files.cert), quoted(&files.key));
    format!(
        "https = \"127.0.0.1:0\"\n[listen.tls]\ncertificates = [{{ cert = {cert}, key = {key} }}]\n{more}\n"
    )
}

/// Connects to the port for TLS.
async fn connect(proxy: &Proxy, client: &ClientTls) -> Result<Stream, HandshakeError> {
    let stream = TcpStream::connect(proxy.https.expect("a port for TLS")).await;
    within("a handshake", client.connect(stream.expect("a connection").into(), "localhost")).await
}

/// Returns the text of the response to a GET over HTTP/1.1, or an error.
async fn get(mut stream: Stream) -> std::io::Result<String> {
    within("a response", async {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await?;
        stream.flush().await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    })
    .await
}

/// The protocol that was chosen for a connection, and whether the client had a certificate.
type Chosen = (Option<String>, bool);

/// Starts a server that decrypts the connections of clients, and relays them to one server for each
/// version of HTTP.
async fn decrypting(tls: ServerTls, http1: SocketAddr, http2: SocketAddr) -> TestServer<Chosen> {
    TestServer::serving(move |stream, _, shared: Arc<Shared<Chosen>>| {
        let tls = tls.clone();
        async move {
            let Ok(mut stream) = tls.accept(stream.into(), LONG).await else { return };
            let alpn = stream.alpn().map(|alpn| String::from_utf8_lossy(alpn).into_owned());
            let to = if alpn.as_deref() == Some("h2") { http2 } else { http1 };
            let proved = stream.tls().is_some_and(|tls| tls.peer_certificates().is_some());
            shared.add((alpn, proved));
            let mut server = TcpStream::connect(to).await.expect("a server");
            let _ = copy_bidirectional(&mut stream, &mut server).await;
        }
    })
    .await
}

#[tokio::test]
async fn clients_choose_the_version_of_http() {
    let authority = Authority::new();
    let backend = Backend::responding(HELLO).await;
    let files = authority.issue("localhost");
    let proxy = Proxy::listening(&listen(&files, ""), "", &[&backend]).await;
    for alpn in [&["h2"][..], &["h2", "http/1.1"], &["http/1.1", "h2"]] {
        let stream = connect(&proxy, &authority.client(alpn, None)).await.expect("a connection");
        assert_eq!(stream.alpn(), Some(&b"h2"[..]), "{alpn:?}");
        let client = Http2Client::over(stream, 1 << 20).await;
        assert_eq!(client.get("/").await.text(), "hello");
        assert_eq!(client.post("/", &[b'x'; 300_000]).await.text(), "hello");
        let seen = backend.seen().pop().expect("a request");
        assert_eq!(seen.header("via"), ["2.0 curtail"]);
        assert_eq!(seen.header("x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!(seen.header("x-forwarded-proto"), ["https"]);
        assert_eq!(seen.body.len(), 300_000);
        drop(client);
    }
    for alpn in [&["http/1.1"][..], &[]] {
        let stream = connect(&proxy, &authority.client(alpn, None)).await.expect("a connection");
        let text = get(stream).await.expect("a response and a clean end");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("hello"), "{text}");
        assert_eq!(backend.seen().pop().expect("a request").header("via"), ["1.1 curtail"]);
    }
    // The port without TLS remains.
    assert_eq!(proxy.get("/").await.text(), "hello");
    let error =
        connect(&proxy, &Authority::new().client(&["h2"], None)).await.expect_err("a refusal");
    assert!(error.to_string().contains("authority"), "{error}");
    proxy.disconnected().await;
}

#[tokio::test]
async fn a_long_response_passes_encrypted() {
    let authority = Authority::new();
    let body = "x".repeat(1_000_000);
    let text = format!("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n{body}");
    let backend = Backend::responding(text).await;
    let proxy = Proxy::listening(&listen(&authority.issue("localhost"), ""), "", &[&backend]).await;
    let stream = connect(&proxy, &authority.client(&["h2"], None)).await.expect("a connection");
    assert_eq!(Http2Client::over(stream, 1 << 20).await.get("/").await.body.len(), 1_000_000);
    let stream = connect(&proxy, &authority.client(&["http/1.1"], None)).await.expect("one");
    assert!(get(stream).await.expect("a response").ends_with(&body));
}

#[tokio::test]
async fn certificates_of_clients_are_verified() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let backend = Backend::responding(HELLO).await;
    let files = authority.issue("localhost");
    for (auth, without) in [("required", false), ("optional", true)] {
        let more = format!("client_auth = \"{auth}\"\nclient_ca = {}", quoted(&authority.ca()));
        let proxy = Proxy::listening(&listen(&files, &more), "", &[&backend]).await;
        for (certificate, accepted) in [
            (None, without),
            (Some(authority.issue("client")), true),
            (Some(stranger.issue("client")), false),
        ] {
            for alpn in ["h2", "http/1.1"] {
                let before = backend.seen().len();
                let client = authority.client(&[alpn], certificate.clone());
                // In TLS 1.3, a client learns only later that its certificate is refused.
                let served = match connect(&proxy, &client).await {
                    Ok(stream) if accepted && alpn == "h2" => {
                        Http2Client::over(stream, 1 << 20).await.get("/").await.status == 200
                    }
                    Ok(stream) => get(stream).await.is_ok_and(|text| text.contains("hello")),
                    Err(_) => false,
                };
                assert_eq!(served, accepted, "{auth} {certificate:?}");
                assert_eq!(backend.seen().len(), before + usize::from(accepted));
            }
        }
        proxy.disconnected().await;
    }
}

#[tokio::test]
async fn plain_requests_at_the_port_for_tls_get_400() {
    let authority = Authority::new();
    let backend = Backend::responding(HELLO).await;
    let proxy = Proxy::listening(&listen(&authority.issue("localhost"), ""), "", &[&backend]).await;
    for length in [0, 100, 10_000] {
        let mut client = Client::connect(proxy.https.expect("a port for TLS")).await;
        let field = format!("x-long: {}", "y".repeat(length));
        client.send(format!("GET / HTTP/1.1\r\nhost: x\r\n{field}\r\n\r\n")).await;
        let response = client.response().await;
        assert_eq!((response.status, response.closes()), (400, true), "{length}");
        assert_eq!(response.text(), "this port requires TLS: use https://\n");
        client.is_closed().await;
    }
    assert_eq!(backend.seen().len(), 0);
    assert_eq!(proxy.count("curtail_rejected_total", &[("reason", "malformed")]).await, 3);
}

#[tokio::test]
async fn tls_at_a_port_without_tls_gets_400() {
    let backend = Backend::responding(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let stream = TcpStream::connect(proxy.http).await.expect("a connection");
    let client = Authority::new().client(&["h2"], None);
    let error = within("a refusal", client.connect(stream.into(), "localhost")).await;
    let error = error.expect_err("no TLS");
    assert!(matches!(error, HandshakeError::PlainServer), "{error}");
    // A connection that ends after the first record is not waited for.
    let mut client = proxy.client().await;
    client.send(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00\r\n\r\n").await;
    assert_eq!(client.response().await.status, 400);
    client.is_closed().await;
    assert_eq!(proxy.get("/").await.text(), "hello");
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_handshake_is_disconnected() {
    let authority = Authority::new();
    let backend = Backend::responding(HELLO).await;
    let listen =
        format!("header_timeout = \"100ms\"\n{}", listen(&authority.issue("localhost"), ""));
    let proxy = Proxy::listening(&listen, "", &[&backend]).await;
    for begun in [&b""[..], b"\x16\x03", b"\x16\x03\x01\x02\x00"] {
        let mut client = Client::connect(proxy.https.expect("a port for TLS")).await;
        client.send(begun).await;
        client.rest().await;
    }
    proxy.disconnected().await;
}

#[tokio::test]
async fn the_protocol_with_a_replica_is_the_configured_or_the_chosen_one() {
    let authority = Authority::new();
    let (http1, http2) = (Backend::responding(HELLO).await, Backend2::responding("hello").await);
    let ca = quoted(&authority.ca());
    let both = &["h2", "http/1.1"][..];
    for (protocol, alpn, chosen) in [
        ("auto", both, Some("h2")),
        ("auto", &["http/1.1"], Some("http/1.1")),
        ("auto", &[], None),
        ("h2", both, Some("h2")),
        ("http1", both, Some("http/1.1")),
        ("http1", &[], None),
    ] {
        let tls = authority.server("localhost", alpn, ClientAuth::None);
        let replica = decrypting(tls, http1.address, http2.address).await;
        let lines = format!("protocol = \"{protocol}\"\ntls = {{ ca = {ca} }}");
        let proxy =
            Proxy::serving(&lines, &[&format!("localhost:{}", replica.address.port())]).await;
        let seen = http2.seen().len();
        for _ in 0..3 {
            let response = proxy.client().await.post("/", "hello").await;
            assert_eq!((response.status, response.text()), (200, "hello".into()), "{protocol}");
        }
        let over_http2 = http2.seen().len() - seen;
        assert_eq!(over_http2, if chosen == Some("h2") { 3 } else { 0 }, "{protocol} {alpn:?}");
        assert_eq!(replica.seen(), [(chosen.map(str::to_owned), false)], "one connection");
        proxy.idle().await;
    }
    assert!(http2.seen().iter().all(|seen| seen.head.uri.scheme_str() == Some("https")));
}

#[tokio::test]
async fn replicas_that_cannot_prove_who_they_are_get_no_request() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let backend = Backend::responding(HELLO).await;
    let other = Backend2::responding("hello").await;
    let ca = |authority: &Authority| quoted(&authority.ca());
    for protocol in ["http1", "h2", "auto"] {
        let tls = authority.server("leaf.example", &["h2", "http/1.1"], ClientAuth::None);
        let replica = decrypting(tls, backend.address, other.address).await;
        let (tls, plain) = (replica.address.to_string(), backend.address.to_string());
        for (settings, address, good) in [
            (format!("ca = {}, name = \"leaf.example\"", ca(&authority)), &tls, true),
            (format!("ca = {}", ca(&authority)), &tls, false),
            (format!("ca = {}, name = \"leaf2.example\"", ca(&authority)), &tls, false),
            (format!("ca = {}, name = \"leaf.example\"", ca(&stranger)), &tls, false),
            (format!("ca = {}, name = \"leaf.example\"", ca(&authority)), &plain, false),
        ] {
            // A server without TLS waits for the rest of a request.
            let timeout = if address == &plain { "200ms" } else { "10s" };
            let lines = format!(
                "protocol = \"{protocol}\"\ntls = {{ {settings} }}\n\
                 connect_timeout = \"{timeout}\"\n\
                 health = {{ path = \"/\", interval = \"20ms\", timeout = \"10s\" }}"
            );
            let seen = || {
                let heads = backend.seen().into_iter().filter(|seen| seen.line().contains("POST"));
                let posts = other.seen().into_iter().filter(|seen| seen.head.method == "POST");
                heads.count() + posts.count()
            };
            let before_it = seen();
            let proxy = Proxy::serving(&lines, &[address]).await;
            let response = proxy.client().await.post("/", "x").await;
            let case = format!("{protocol} {settings}: {}", response.text());
            if good {
                assert_eq!((response.status, seen()), (200, before_it + 1), "{case}");
                proxy.up(1).await;
            } else {
                assert!(matches!(response.status, 502 | 503), "{case}");
                assert_eq!(seen(), before_it, "{case}");
                proxy.up(0).await;
            }
        }
    }
}

#[tokio::test]
async fn the_proxy_proves_who_it_is() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (http1, http2) = (Backend::responding(HELLO).await, Backend2::responding("hello").await);
    let ca = quoted(&authority.ca());
    for protocol in ["http1", "h2"] {
        let tls = authority.server("localhost", &["h2", "http/1.1"], ClientAuth::Required);
        let replica = decrypting(tls, http1.address, http2.address).await;
        let address = format!("localhost:{}", replica.address.port());
        for (issuer, good) in [(Some(&authority), true), (Some(&stranger), false), (None, false)] {
            let files = issuer.map(|issuer| issuer.issue("proxy"));
            let files = files.map(|files| {
                format!(", cert = {}, key = {}", quoted(&files.cert), quoted(&files.key))
            });
            let files = files.unwrap_or_default();
            let lines = format!("protocol = \"{protocol}\"\ntls = {{ ca = {ca}{files} }}");
            let proxy = Proxy::serving(&lines, &[&address]).await;
            let response = proxy.client().await.post("/", "x").await;
            let status = if good { 200 } else { 502 };
            assert_eq!(response.status, status, "{protocol} {files}: {}", response.text());
        }
        let proved = (Some(if protocol == "h2" { "h2" } else { "http/1.1" }.to_owned()), true);
        assert_eq!(replica.seen(), [proved]);
    }
}

#[tokio::test]
async fn replicas_have_names_and_paths() {
    let backend = Backend::responding(HELLO).await;
    let proxy = Proxy::serving("", &[&format!("localhost:{}", backend.address.port())]).await;
    assert_eq!(proxy.get("/").await.text(), "hello");

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("leaf.sock");
    let other = Backend2::responding("hello").await;
    for (protocol, to) in [("http1", backend.address), ("h2", other.address)] {
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(to).await.expect("a server");
                    let _ = copy_bidirectional(&mut stream, &mut server).await;
                });
            }
        });
        let lines = format!("protocol = \"{protocol}\"");
        let proxy = Proxy::serving(&lines, &[&format!("unix:{}", path.display())]).await;
        for _ in 0..2 {
            let response = proxy.client().await.post("/", "hello").await;
            assert_eq!((response.status, response.text()), (200, "hello".into()), "{protocol}");
        }
    }
    assert_eq!((backend.seen().len(), other.seen().len()), (3, 2));
    let proxy = Proxy::serving("", &[&"no-such-host.invalid:80".to_owned()]).await;
    assert_eq!(proxy.client().await.post("/", "x").await.status, 502);
    let proxy = Proxy::serving("", &[&format!("unix:{}/none.sock", folder.path().display())]).await;
    assert_eq!(proxy.client().await.post("/", "x").await.status, 502);
}

#[tokio::test]
async fn draining_waits_for_encrypted_connections() {
    let authority = Authority::new();
    let backend = Backend::gated(HELLO).await;
    let listen = listen(&authority.issue("localhost"), "");
    let mut proxy = Proxy::listening(&listen, "slots = 9", &[&backend]).await;
    let address = proxy.https.expect("a port for TLS");
    let connect = async |alpn| connect(&proxy, &authority.client(&[alpn], None)).await;
    let client = Http2Client::over(connect("h2").await.expect("a connection"), 1 << 20).await;
    let running = tokio::spawn(get(connect("http/1.1").await.expect("a connection")));
    let other = tokio::spawn(async move { client.get("/").await });
    backend.has_seen(2).await;
    proxy.drain();
    eventually("connections are refused", async || TcpStream::connect(address).await.is_err())
        .await;
    backend.open(2);
    assert!(running.await.expect("no panic").expect("a response").ends_with("hello"));
    assert_eq!(other.await.expect("no panic").text(), "hello");
    assert_eq!(proxy.ended().await, 0);
}

#[test]
fn errors_in_settings_have_a_line_and_a_fix() {
    let authority = Authority::new();
    let (one, two) = (authority.issue("one"), authority.issue("two"));
    let (ca, missing) =
        (quoted(&authority.ca()), quoted(&authority.folder.path().join("none.pem")));
    let (cert, key, other) = (quoted(&one.cert), quoted(&one.key), quoted(&two.key));
    let https = "https = \"127.0.0.1:0\"";
    let listen = |tls: &str| format!("[listen]\n{https}\ntls = {tls}\n[[service]]\nname = \"s\"\n");
    let with = |lines: &str| format!("[[service]]\nname = \"s\"\n{lines}\n");
    let pair = |cert: &str, key: &str| format!("certificates = [{{ cert = {cert}, key = {key} }}]");
    for (text, line, parts) in [
        (
            format!("[listen]\n{https}\n[[service]]\nname = \"s\"\n"),
            2,
            &["no certificate", "[listen.tls]"][..],
        ),
        (
            format!("[listen]\ntls = {{ {} }}\n[[service]]\nname = \"s\"\n", pair(&cert, &key)),
            2,
            &["https"],
        ),
        (listen("{ certificates = [] }"), 3, &["no certificate", "cert = \"FILE\""]),
        (listen(&format!("{{ certificates = [{{ cert = {cert} }}] }}")), 3, &["key"]),
        (listen(&format!("{{ {} }}", pair(&missing, &key))), 3, &["none.pem", "cannot be read"]),
        (listen(&format!("{{ {} }}", pair(&cert, &missing))), 3, &["none.pem", "cannot be read"]),
        (listen(&format!("{{ {} }}", pair(&cert, &other))), 3, &["two.key", "one.pem"]),
        (listen(&format!("{{ {} }}", pair(&key, &cert))), 3, &["one.key"]),
        (
            listen(&format!("{{ {}, client_auth = \"required\" }}", pair(&cert, &key))),
            3,
            &["client_ca"],
        ),
        (listen(&format!("{{ {}, client_auth = \"some\" }}", pair(&cert, &key))), 3, &["required"]),
        (with(&format!("tls = {{ ca = {missing} }}")), 3, &["none.pem", "cannot be read"]),
        (
            with(&format!("tls = {{ ca = {ca}, cert = {cert} }}")),
            3,
            &["belong together", "set both"],
        ),
        (with(&format!("tls = {{ ca = {ca}, cert = {cert}, key = {other} }}")), 3, &["two.key"]),
        (with(&format!("tls = {{ ca = {ca}, name = \"a b\" }}")), 3, &["a b", "host name"]),
        (with("protocol = \"h3\""), 3, &["h2", "auto"]),
    ] {
        let whole =
            format!("{text}[[service.shard]]\nname = \"0\"\nreplicas = [\"127.0.0.1:1\"]\n");
        let errors = match curtail_proxy::config::parse("test.toml", &whole) {
            Ok(_) => panic!("no error in\n{whole}"),
            Err(errors) => errors.to_string(),
        };
        assert!(errors.contains(&format!("test.toml:{line}: ")), "{errors}\nin\n{whole}");
        for part in parts {
            assert!(errors.contains(part), "{part} is not in {errors}");
        }
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.contains("; "), "{errors}");
    }
}

#[tokio::test]
async fn the_metrics_show_when_certificates_expire() {
    let authority = Authority::new();
    let files = authority.issue("localhost");
    let backend = Backend::responding(HELLO).await;
    let ca = quoted(&authority.ca());
    let more = format!("client_auth = \"optional\"\nclient_ca = {ca}");
    let lines = format!("tls = {{ ca = {ca} }}");
    let proxy = Proxy::listening(&listen(&files, &more), &lines, &[&backend]).await;
    let metrics = proxy.metrics().await;
    // 1 January 4096, which is the default of the crate that makes the certificates.
    let expected = 67_090_118_400.0;
    let (cert, ca) = (files.cert.display().to_string(), authority.ca().display().to_string());
    for (place, file) in [("listen.https", &cert), ("listen.https", &ca), ("s", &ca)] {
        let labels = [("place", place), ("file", file)];
        let found = metrics.sum("curtail_certificate_expiry_seconds", &labels);
        assert!((found - expected).abs() < 1.0, "{place} {file}: {found}");
    }
    let proxy = Proxy::serving("", &[&backend]).await;
    let text = proxy.asked("/metrics").await.text();
    assert!(!text.contains("certificate"), "there is none: {text}");
}
