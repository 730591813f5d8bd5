//! Tests connections that switch to another protocol, between both versions of HTTP.

use std::time::Duration;

use curtail_http::h2::Tunnel;
use h2::ext::Protocol;
use http::Request;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::http2::{Http2Client, request};
use crate::harness::{Client, Proxy, Shared, TestServer, eventually, within};

/// The key of the standard, and its accept value (RFC 6455 §1.3).
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const SWITCHES: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n\
    upgrade: WebSocket\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nwelcome";

/// Asks for a WebSocket.
fn handshake(more: &str) -> String {
    format!(
        "GET /chat?a=b HTTP/1.1\r\nhost: x\r\nconnection: keep-alive, Upgrade\r\n\
         upgrade: websocket\r\nsec-websocket-key: {KEY}\r\n{more}\r\n"
    )
}

/// Starts a server that welcomes its clients, echoes what they send, and says goodbye to those that
/// have sent everything. It records the heads of the requests, as text.
async fn echoing(is_http2: bool, response: &'static str) -> TestServer<String> {
    TestServer::serving(move |stream, _, heads| async move {
        if is_http2 {
            serve_http2(stream, &heads).await;
        } else {
            serve_http1(stream, &heads, response).await;
        }
    })
    .await
}

/// Returns the last head that a server has received.
fn last(replica: &TestServer<String>) -> String {
    replica.seen().pop().unwrap_or_default()
}

async fn serve_http1(mut stream: TcpStream, heads: &Shared<String>, response: &str) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        heads.add(String::from_utf8_lossy(&head).into_owned());
        stream.write_all(response.as_bytes()).await.expect("it is written");
        if response.contains(" 101 ") {
            return echo(stream).await;
        }
    }
}

async fn serve_http2(stream: TcpStream, heads: &Shared<String>) {
    let mut builder = h2::server::Builder::new();
    let mut connection = builder.enable_connect_protocol().handshake(stream).await.expect("HTTP/2");
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let (head, body) = request.into_parts();
        heads.add(format!("{head:?}"));
        let is_tunnel =
            head.extensions.get::<Protocol>().map(Protocol::as_str) == Some("websocket");
        let response = http::Response::new(());
        let Ok(sending) = respond.send_response(response, !is_tunnel) else { continue };
        tokio::spawn(async move {
            let mut tunnel = Tunnel::new(Some(body), sending);
            tunnel.write_all(b"welcome").await.expect("it is written");
            echo(tunnel).await;
        });
    }
}

async fn echo(stream: impl AsyncRead + AsyncWrite) {
    let (mut reading, mut writing) = tokio::io::split(stream);
    if tokio::io::copy(&mut reading, &mut writing).await.is_ok() {
        let _ = writing.write_all(b"bye").await;
        let _ = writing.shutdown().await;
    }
}

trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

/// Opens a WebSocket through the proxy. Returns the head of the response, too.
async fn open(proxy: &Proxy, is_http2: bool) -> (String, Box<dyn Duplex>) {
    if !is_http2 {
        let mut stream = TcpStream::connect(proxy.http).await.expect("a connection");
        stream.write_all(handshake("").as_bytes()).await.expect("it is written");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(within("a head", stream.read_u8()).await.expect("a head"));
        }
        return (String::from_utf8_lossy(&head).to_lowercase(), Box::new(stream));
    }
    let client = Http2Client::connect(proxy.http).await;
    let (head, tunnel) = connect(&client, "websocket").await;
    // The connection lives as long as the test.
    std::mem::forget(client);
    (head, Box::new(tunnel))
}

async fn connect(client: &Http2Client, protocol: &'static str) -> (String, Tunnel) {
    // A response shows that the settings of the proxy have arrived.
    let _ = client.send(request("GET", "/nowhere-else"), b"").await;
    let mut connect =
        Request::builder().method("CONNECT").uri("http://x/chat?a=b").body(()).unwrap();
    connect.extensions_mut().insert(Protocol::from_static(protocol));
    let stream = client.start(connect, false).await;
    let response = within("a response", stream.response).await.expect("a response");
    let head = format!("{} {:?}", response.status(), response.headers());
    (head, Tunnel::new(Some(response.into_body()), stream.sending))
}

async fn before(lines: &str, echo: &TestServer<String>) -> Proxy {
    let lines = format!("route = {{ path_prefix = \"/chat\", tunnel = true }}\n{lines}");
    Proxy::serving(&lines, &[echo]).await
}

async fn reads(tunnel: &mut (impl AsyncRead + Unpin + ?Sized), text: &str) {
    let mut read = vec![0; text.len()];
    within(text, tunnel.read_exact(&mut read)).await.expect("bytes");
    assert_eq!(String::from_utf8_lossy(&read), text);
}

async fn open_tunnels(proxy: &Proxy, count: u64) {
    let condition = format!("{count} tunnels");
    eventually(&condition, async || proxy.count("curtail_tunnels", &[]).await == count).await;
}

#[tokio::test]
async fn websockets_pass_between_all_versions() {
    for (from_http2, to_http2) in [(false, false), (true, false), (false, true), (true, true)] {
        let replica = echoing(to_http2, SWITCHES).await;
        let protocol = if to_http2 { "protocol = \"h2\"" } else { "" };
        let proxy = before(protocol, &replica).await;
        let (head, mut tunnel) = open(&proxy, from_http2).await;
        if from_http2 {
            assert!(head.starts_with("200"), "{head}");
            assert!(!head.contains("sec-websocket"), "{head}");
        } else {
            assert!(head.starts_with("http/1.1 101 "), "{head}");
            assert!(head.contains("connection: upgrade\r\n"), "{head}");
            assert!(head.contains("upgrade: websocket\r\n"), "{head}");
            let accept = format!("sec-websocket-accept: {}\r\n", ACCEPT.to_lowercase());
            assert_eq!(head.matches(&accept).count(), 1, "{head}");
        }
        let seen = last(&replica);
        assert!(seen.contains("/chat?a=b"), "{seen}");
        assert_eq!(seen.contains("sec-websocket-key"), !to_http2, "{seen}");
        // The slot is free, although the tunnel is open.
        proxy.idle().await;
        open_tunnels(&proxy, 1).await;
        reads(&mut *tunnel, "welcome").await;
        for _ in 0..3 {
            tunnel.write_all(b"ping").await.expect("it is written");
            reads(&mut *tunnel, "ping").await;
        }
        let long = "long".repeat(100_000);
        let (mut reading, mut writing) = tokio::io::split(tunnel);
        let write = async {
            writing.write_all(long.as_bytes()).await.expect("it is written");
            writing.shutdown().await.expect("the end");
        };
        tokio::join!(write, reads(&mut reading, &long));
        // The other direction is still open.
        let mut rest = String::new();
        within("the end", reading.read_to_string(&mut rest)).await.expect("the end");
        assert_eq!(rest, "bye");
        open_tunnels(&proxy, 0).await;
    }
}

#[tokio::test]
async fn a_client_that_sends_early_loses_nothing_and_one_that_leaves_frees_its_place() {
    let replica = echoing(false, SWITCHES).await;
    let proxy = before("tunnels = { max = 1 }", &replica).await;
    let mut client = proxy.client().await;
    client.send(handshake("") + "early").await;
    client.receives("welcomeearly").await;
    for more in ["", "sec-websocket-version: 13\r\n"] {
        let mut full = proxy.client().await;
        full.send(handshake(more)).await;
        let response = full.response().await;
        assert_eq!(response.status, 503);
        assert!(response.text().contains("tunnels.max"), "{}", response.text());
    }
    assert_eq!(proxy.count("curtail_rejected_total", &[("reason", "tunnels")]).await, 2);
    drop(client);
    open_tunnels(&proxy, 0).await;
    let mut client = proxy.client().await;
    client.send(handshake("")).await;
    client.receives("welcome").await;
}

#[tokio::test]
async fn an_idle_tunnel_is_closed_and_a_busy_one_is_not() {
    let replica = echoing(false, SWITCHES).await;
    let proxy = before("tunnels = { idle_timeout = \"200ms\" }", &replica).await;
    let (_, mut busy) = open(&proxy, false).await;
    let (_, mut idle) = open(&proxy, false).await;
    reads(&mut *busy, "welcome").await;
    reads(&mut *idle, "welcome").await;
    let begin = tokio::time::Instant::now();
    let closed = async { within("the end", idle.read(&mut [0; 9])).await };
    let busy = async {
        while begin.elapsed() < Duration::from_millis(500) {
            busy.write_all(b"ping").await.expect("it is open");
            reads(&mut *busy, "ping").await;
            tokio::time::sleep(Duration::from_millis(20)).await; // tidy: real time
        }
    };
    let (closed, ()) = tokio::join!(closed, busy);
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    open_tunnels(&proxy, 1).await;
}

#[tokio::test]
async fn a_refused_handshake_is_an_ordinary_response() {
    let refused = "HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno";
    let replica = echoing(false, refused).await;
    let proxy = before("", &replica).await;
    let mut client = proxy.client().await;
    for _ in 0..2 {
        client.send(handshake("")).await;
        let response = client.response().await;
        assert_eq!((response.status, response.text()), (403, "no".to_owned()));
        assert!(last(&replica).contains("upgrade: websocket"), "{}", last(&replica));
    }
    let client = Http2Client::connect(proxy.http).await;
    let (head, mut body) = connect(&client, "websocket").await;
    assert!(head.starts_with("403"), "{head}");
    reads(&mut body, "no").await;
    open_tunnels(&proxy, 0).await;
}

#[tokio::test]
async fn other_requests_to_switch_are_ordinary_requests() {
    let plain = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    for (lines, request) in [
        ("tunnels = { protocols = [] }", handshake("")),
        ("", handshake("").replace("websocket\r", "h2c\r")),
        ("", handshake("").replace("websocket\r", "websocket, other\r")),
        ("", handshake("upgrade: websocket\r\n")),
        ("", handshake("").replace("keep-alive, Upgrade", "keep-alive")),
        ("", handshake("").replace("HTTP/1.1", "HTTP/1.0")),
        ("", handshake("content-length: 2\r\n") + "hi"),
    ] {
        let replica = echoing(false, plain).await;
        let proxy = before(lines, &replica).await;
        let mut client = proxy.client().await;
        client.send(request.clone()).await;
        assert_eq!(client.response().await.text(), "ok", "{request}");
        let seen = last(&replica).to_lowercase();
        assert!(!seen.contains("\r\nupgrade:") && !seen.contains("\r\nconnection:"), "{seen}");
    }
}

#[tokio::test]
async fn a_replica_may_switch_only_to_the_protocol_that_was_requested() {
    let other = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n";
    let silent = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
    for (response, request) in [
        (other, handshake("")),
        (silent, handshake("")),
        (SWITCHES, "GET /chat HTTP/1.1\r\nhost: x\r\n\r\n".to_owned()),
    ] {
        let replica = echoing(false, response).await;
        let proxy = before("", &replica).await;
        let mut client = Client::connect(proxy.http).await;
        client.send(request).await;
        assert_eq!(client.response().await.status, 502, "{response}");
        open_tunnels(&proxy, 0).await;
    }
}

#[tokio::test]
async fn a_protocol_of_http2_must_be_a_name_that_the_service_has() {
    let replica = echoing(false, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let proxy = before("", &replica).await;
    for (protocol, status) in
        [("other", "501"), ("a\r\nx: y", "400"), ("", "400"), ("websocket", "502")]
    {
        let client = Http2Client::connect(proxy.http).await;
        let (head, _tunnel) = connect(&client, protocol).await;
        assert!(head.starts_with(status), "{protocol:?}: {head}");
        assert!(!last(&replica).contains("x: y"), "{}", last(&replica));
    }
}
