//! Tests HTTP/2 on both sides: what passes, what is refused, and how streams and connections end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::Reason;
use tokio::task::JoinSet;

use crate::harness::http2::{
    Act, Backend2, DATA, END_HEADERS, END_STREAM, Fate, HEADERS, Http2Client, PREFACE, RawClient,
    SETTINGS, Seen2, frame, goaway, hpack, raw_backend, request, values, whole,
};
use crate::harness::{
    Backend, Client, HELLO, Proxy, Step, config, eventually, say, service, within,
};

const H2: &str = "protocol = \"h2\"";
const SLOTS: &str = "protocol = \"h2\"\nslots = 99\ncancel = \"reset\"";

/// Starts a proxy in front of one replica.
async fn before(listen: &str, lines: &str, replica: SocketAddr) -> Proxy {
    Proxy::start(&config(listen, &service(lines, &[replica]))).await
}

/// A message, without regard to the version of HTTP.
#[derive(Clone, Debug)]
struct Message {
    /// The method, the path and the authority, or the status.
    line: String,
    /// All fields as `name: value` lines.
    fields: Vec<String>,
    body: Vec<u8>,
}

impl Message {
    fn values(&self, name: &str) -> Vec<&str> {
        let fields = self.fields.iter().filter_map(|line| line.split_once(": "));
        fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, v)| v).collect()
    }
}

fn lines(fields: &http::HeaderMap) -> Vec<String> {
    let value = |value: &http::HeaderValue| value.to_str().expect("ASCII").to_owned();
    fields.iter().map(|(name, v)| format!("{name}: {}", value(v))).collect()
}

/// A server of either version that sends back the body of the request.
enum Echo {
    Http1(Backend),
    Http2(Backend2),
}

impl Echo {
    async fn new(is_http2: bool) -> Self {
        if is_http2 {
            return Self::Http2(Backend2::new(Self::http2).await);
        }
        Self::Http1(
            Backend::new(|seen| {
                let (length, is_head) = (seen.body.len(), seen.line().starts_with("HEAD"));
                let hops = "connection: x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5";
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n{hops}\r\nx-a: 1");
                let head = match seen.line().split(' ').nth(1) {
                    Some("/204") => "HTTP/1.1 204 No Content\r\nx-a: 1".to_owned(),
                    Some("/304") => "HTTP/1.1 304 Not Modified\r\nx-a: 1".to_owned(),
                    _ => head,
                };
                let body = if is_head { Vec::new() } else { seen.body.clone() };
                vec![say([format!("{head}\r\n\r\n").into_bytes(), body].concat())]
            })
            .await,
        )
    }

    fn http2(seen: &Seen2) -> Vec<Act> {
        let length = seen.body.len().to_string();
        let head = |status, ends| Act::Head(status, vec![("x-a", "1".into())], ends);
        match seen.path() {
            "/204" => vec![head(204, true)],
            "/304" => vec![head(304, true)],
            _ if seen.head.method == "HEAD" => {
                let fields = vec![("x-a", "1".into()), ("content-length", length)];
                vec![Act::Head(200, fields, true)]
            }
            _ => vec![head(200, false), Act::Data(seen.body.clone(), true)],
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Http1(backend) => backend.address,
            Self::Http2(backend) => backend.address,
        }
    }

    /// Returns the last request.
    fn last(&self) -> Message {
        match self {
            Self::Http1(backend) => {
                let seen = backend.seen().pop().expect("a request");
                let (method, rest) = seen.line().split_once(' ').expect("a method");
                let path = rest.strip_suffix(" HTTP/1.1").expect("HTTP/1.1");
                let line = format!("{method} {path} {}", seen.header("host").concat());
                let fields = seen.head.lines().skip(1).map(str::to_owned).collect();
                Message { line, fields, body: seen.body }
            }
            Self::Http2(backend) => {
                let seen = backend.seen().pop().expect("a request");
                let line = format!("{} {} {}", seen.head.method, seen.path(), seen.authority());
                assert_eq!(seen.head.uri.scheme_str(), Some("http"));
                assert_eq!(seen.header("host"), [""; 0]);
                Message { line, fields: lines(&seen.head.headers), body: seen.body }
            }
        }
    }
}

/// A client of either version.
enum Sender {
    Http1(Client),
    Http2(Http2Client),
}

impl Sender {
    async fn new(is_http2: bool, proxy: &Proxy) -> Self {
        if is_http2 {
            return Self::Http2(Http2Client::connect(proxy.http).await);
        }
        Self::Http1(proxy.client().await)
    }

    async fn send(&mut self, method: &str, path: &str, fields: &[&str], body: &[u8]) -> Message {
        match self {
            Self::Http1(client) => {
                let mut head = format!("{method} {path} HTTP/1.1\r\nhost: leaf.example:81\r\n");
                for field in fields {
                    head += &format!("{field}\r\n");
                }
                if !body.is_empty() {
                    head += &format!("content-length: {}\r\n", body.len());
                }
                client.send([format!("{head}\r\n").as_bytes(), body].concat()).await;
                let response = match method {
                    "HEAD" => client.response_to_head().await,
                    _ => client.response().await,
                };
                assert!(response.whole);
                let fields = response.head.lines().skip(1).map(str::to_owned).collect();
                Message { line: response.status.to_string(), fields, body: response.body }
            }
            Self::Http2(client) => {
                let uri = format!("http://leaf.example:81{path}");
                let mut request = http::Request::builder().method(method).uri(uri);
                for field in fields {
                    let (name, value) = field.split_once(": ").expect("a field");
                    request = request.header(name, value);
                }
                let request = request.body(()).expect("a request");
                let reply = client.send(request, body).await.expect("a reply");
                assert_eq!(reply.trailers, None);
                let fields = lines(&reply.fields);
                Message { line: reply.status.to_string(), fields, body: reply.body }
            }
        }
    }
}

#[tokio::test]
async fn messages_pass_between_all_versions() {
    for (client_http2, replica_http2) in [(true, false), (false, true), (true, true)] {
        let echo = Echo::new(replica_http2).await;
        let protocol = if replica_http2 { H2 } else { "" };
        let proxy = before("", protocol, echo.address()).await;
        let mut client = Sender::new(client_http2, &proxy).await;
        for (method, path, length) in [
            ("GET", "/a/b?c=d%20e&f", 0),
            ("POST", "/", 5),
            ("PUT", "/large", 300_000),
            ("DELETE", "/none", 0),
            ("PATCH", "/?", 1),
        ] {
            let case = format!("{client_http2} {replica_http2} {method} {path}");
            let body: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
            let fields = ["x-one: 1", "x-two: a", "x-two: b", "cookie: a=1; b=2"];
            let response = client.send(method, path, &fields, &body).await;
            assert_eq!(response.line, "200", "{case}");
            assert_eq!(response.values("x-a"), ["1"], "{case}");
            let via = if replica_http2 { "2.0 curtail" } else { "1.1 curtail" };
            assert_eq!(response.values("via"), [via], "{case}");
            assert!(response.body == body, "{case}: {} bytes", response.body.len());
            let seen = echo.last();
            assert_eq!(seen.line, format!("{method} {path} leaf.example:81"), "{case}");
            assert_eq!(seen.values("x-two"), ["a", "b"], "{case}");
            assert_eq!(seen.values("cookie"), ["a=1; b=2"], "{case}");
            assert_eq!(seen.values("x-forwarded-for"), ["127.0.0.1"], "{case}");
            let via = if client_http2 { "2.0 curtail" } else { "1.1 curtail" };
            assert_eq!(seen.values("via"), [via], "{case}");
            assert!(seen.body == body, "{case}: {} bytes", seen.body.len());
            for hop in ["connection", "keep-alive", "x-hop", "te"] {
                assert_eq!(response.values(hop), [""; 0], "{case}: {hop}");
                assert_eq!(seen.values(hop), [""; 0], "{case}: {hop}");
            }
            assert_eq!(seen.values("transfer-encoding"), [""; 0], "{case}");
            assert_eq!(response.values("transfer-encoding").is_empty(), client_http2, "{case}");
        }
        let head = client.send("HEAD", "/", &[], b"").await;
        assert_eq!(
            (&*head.line, head.body.len(), head.values("content-length").len()),
            ("200", 0, 1)
        );
        for status in ["204", "304"] {
            let response = client.send("GET", &format!("/{status}"), &[], b"").await;
            assert_eq!((&*response.line, response.body.len()), (status, 0));
            assert_eq!(response.values("x-a"), ["1"]);
            assert_eq!(response.values("content-length"), [""; 0]);
        }
        proxy.idle().await;
    }
}

#[tokio::test]
async fn fields_of_a_connection_stay_behind_and_crumbs_are_joined() {
    let backend = Backend2::responding("hello").await;
    let proxy = before("", H2, backend.address).await;
    let fields = "connection: x-hop, keep-alive\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\n\
        proxy-connection: close\r\nupgrade: h2c\r\nte: trailers, deflate\r\nx-end: 1";
    let mut client = proxy.client().await;
    client.send(format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n\r\n")).await;
    assert_eq!(client.response().await.text(), "hello");
    let seen = backend.seen().remove(0);
    for hop in ["x-hop", "keep-alive", "connection", "proxy-connection", "upgrade"] {
        assert_eq!(seen.header(hop), [""; 0], "{hop}");
    }
    assert_eq!(seen.header("x-end"), ["1"]);

    let backend = Backend::responding(HELLO).await;
    let proxy = before("", "", backend.address).await;
    let client = Http2Client::connect(proxy.http).await;
    let mut crumbs = request("GET", "/");
    for crumb in ["a=1", "b=2; c=3", "d=4"] {
        crumbs.headers_mut().append("cookie", crumb.parse().expect("a value"));
    }
    crumbs.headers_mut().append("te", "trailers".parse().expect("a value"));
    assert_eq!(client.send(crumbs, b"").await.expect("a reply").text(), "hello");
    let seen = backend.seen().remove(0);
    assert_eq!(seen.header("cookie"), ["a=1; b=2; c=3; d=4"]);
}

#[tokio::test]
async fn an_asterisk_and_an_absolute_target_pass() {
    let backend = Backend2::responding("hello").await;
    let proxy = before("", H2, backend.address).await;
    let mut client = proxy.client().await;
    for (line, path, authority) in [
        ("OPTIONS * HTTP/1.1\r\nhost: x:1", "*", "x:1"),
        ("GET http://leaf.example/a?b HTTP/1.1\r\nhost: leaf.example", "/a?b", "leaf.example"),
        ("GET http://leaf.example HTTP/1.1\r\nhost: leaf.example", "/", "leaf.example"),
    ] {
        client.send(format!("{line}\r\n\r\n")).await;
        assert_eq!(client.response().await.text(), "hello", "{line}");
        let seen = backend.seen().pop().expect("a request");
        assert_eq!((seen.path(), seen.authority()), (path, authority));
    }
}

#[tokio::test]
async fn trailers_pass_between_clients_and_servers_of_http2() {
    for fields in [vec![], vec![("content-length", "5".to_owned())]] {
        let backend = Backend2::new(move |_| {
            let trailers = vec![("grpc-status", "0"), ("x-sum", "a"), ("x-sum", "b")];
            vec![
                Act::Head(200, fields.clone(), false),
                Act::Data(b"hello".into(), false),
                Act::Trailers(trailers),
            ]
        })
        .await;
        let proxy = before("", H2, backend.address).await;
        let reply = Http2Client::connect(proxy.http).await.get("/").await;
        assert_eq!(reply.text(), "hello");
        let trailers = reply.trailers.expect("trailers");
        assert_eq!(values(&trailers, "grpc-status"), ["0"]);
        assert_eq!(values(&trailers, "x-sum"), ["a", "b"]);
        assert_eq!(trailers.len(), 3);
        // HTTP/1.1 clients get the body without them.
        let response = proxy.get("/").await;
        assert!(response.whole && response.text() == "hello");
        assert_eq!(response.header("x-sum"), None);
    }
}

#[tokio::test]
async fn trailers_pass_without_a_body() {
    for fields in [vec![], vec![("content-length", "0".to_owned())]] {
        let backend = Backend2::new(move |_| {
            let trailers = vec![("grpc-status", "5")];
            vec![Act::Head(200, fields.clone(), false), Act::Trailers(trailers)]
        })
        .await;
        let proxy = before("", H2, backend.address).await;
        let reply = Http2Client::connect(proxy.http).await.get("/").await;
        let trailers = reply.trailers.expect("trailers");
        assert_eq!(values(&trailers, "grpc-status"), ["5"]);
        assert!(proxy.get("/").await.whole);
    }
}

type Fields<'a> = &'a [(&'a str, &'a [u8])];

/// A GET as fields.
const GET: [(&str, &[u8]); 4] =
    [(":method", b"GET"), (":scheme", b"http"), (":authority", b"x"), (":path", b"/")];

/// Returns what becomes of a request that consists of these fields and this body.
async fn fate(proxy: &Proxy, fields: Fields<'_>, body: Option<&[u8]>) -> Fate {
    let mut client = RawClient::connect(proxy.http).await;
    let flags = if body.is_some() { END_HEADERS } else { END_HEADERS | END_STREAM };
    let mut bytes = frame(HEADERS, flags, 1, &hpack(fields));
    if let Some(body) = body {
        bytes.extend(frame(DATA, END_STREAM, 1, body));
    }
    client.send(&bytes).await;
    client.fate(1).await
}

/// A GET with more fields.
fn with(fields: Fields<'static>) -> Vec<(&'static str, &'static [u8])> {
    [&GET[..], fields].concat()
}

/// Requests that are not valid, or that two servers could read differently.
fn ambiguous() -> Vec<Vec<(&'static str, &'static [u8])>> {
    let path = |path| [&GET[..3], &[(":path", path)]].concat();
    let authority = |authority| vec![GET[0], GET[1], (":authority", authority), GET[3]];
    vec![
        with(&[("host", b"x"), ("host", b"x")]),
        with(&[("host", b"x"), ("host", b"y")]),
        with(&[("host", b"y")]),
        with(&[("transfer-encoding", b"chunked")]),
        with(&[("transfer-encoding", b"identity")]),
        with(&[("connection", b"close")]),
        with(&[("connection", b"x-hop"), ("x-hop", b"1")]),
        with(&[("keep-alive", b"timeout=5")]),
        with(&[("proxy-connection", b"close")]),
        with(&[("upgrade", b"websocket")]),
        with(&[("te", b"deflate")]),
        with(&[("te", b"trailers, deflate")]),
        with(&[("te", b"trailers"), ("te", b"gzip")]),
        with(&[("content-length", b"5")]),
        with(&[("content-length", b"+0")]),
        with(&[("content-length", b"0"), ("content-length", b"1")]),
        with(&[("X-Upper", b"1")]),
        with(&[("x-line", b"1\r\nx-more: 2")]),
        with(&[("x-line", b"1\n")]),
        with(&[("x-nul", b"\0")]),
        with(&[("x bad", b"1")]),
        with(&[("x:bad", b"1")]),
        with(&[("", b"1")]),
        with(&[(":path", b"/2")]),
        with(&[(":status", b"200")]),
        with(&[(":unknown", b"1")]),
        with(&[("x-first", b"1"), (":protocol", b"websocket")]),
        path(b""),
        path(b"a"),
        path(b"/ HTTP/1.1\r\nx: y"),
        path(b"/a b"),
        path(b"/\0"),
        path(b"/\x7f"),
        path(b"/\xff"),
        path(b"*"),
        path(b"http://y/"),
        authority(b""),
        authority(b"a b"),
        authority(b"x\r\ny: z"),
        authority(b"user@x"),
        authority(b"x/y"),
        GET[..3].to_vec(),
        vec![GET[0], GET[1], GET[3]],
        vec![GET[0], GET[2], GET[3]],
        vec![GET[1], GET[2], GET[3]],
        vec![GET[0], GET[0], GET[1], GET[2], GET[3]],
        vec![(":method", b"G T"), GET[1], GET[2], GET[3]],
        vec![(":method", b""), GET[1], GET[2], GET[3]],
        vec![("x-first", b"1"), GET[0], GET[1], GET[2], GET[3]],
    ]
}

#[tokio::test]
async fn requests_that_two_servers_could_read_differently_reach_no_replica() {
    const PROTOCOL_ERROR: Fate = Fate::Reset(1);
    let backend = Backend::responding(HELLO).await;
    let proxy = before("", "", backend.address).await;
    assert_eq!(fate(&proxy, &GET, None).await, Fate::Status(200));
    for fields in ambiguous() {
        let fate = fate(&proxy, &fields, None).await;
        let refused = [Fate::Status(400), Fate::Status(501), PROTOCOL_ERROR, Fate::Ended];
        assert!(refused.contains(&fate), "{fields:?}: {fate:?}");
        assert_eq!(backend.seen().len(), 1, "{fields:?} reached the replica");
    }
    for connect in [
        vec![(":method", &b"CONNECT"[..]), (":authority", b"x:1")],
        vec![(":method", &b"CONNECT"[..]), GET[1], GET[2], GET[3]],
        vec![(":method", &b"CONNECT"[..]), GET[1], GET[2], GET[3], (":protocol", b"websocket")],
    ] {
        let fate = fate(&proxy, &connect, None).await;
        assert!([Fate::Status(501), PROTOCOL_ERROR].contains(&fate), "{connect:?}: {fate:?}");
    }
    for (length, body) in [("5", "hell"), ("5", "hello!"), ("0", "hello"), ("1", "")] {
        let fields = with(&[("x-case", b"1")]);
        let fields = [&fields[..], &[("content-length", length.as_bytes())]].concat();
        let fate = fate(&proxy, &fields, Some(body.as_bytes())).await;
        let refused = [Fate::Status(400), PROTOCOL_ERROR, Fate::Ended];
        assert!(refused.contains(&fate), "{length} for {body:?}: {fate:?}");
    }
    assert_eq!(backend.seen().len(), 1);
    // What is valid still passes.
    for fields in [
        with(&[("host", b"X")]),
        with(&[("te", b"trailers")]),
        with(&[("content-length", b"0")]),
        vec![GET[0], GET[1], GET[3], ("host", b"x")],
    ] {
        assert_eq!(fate(&proxy, &fields, None).await, Fate::Status(200), "{fields:?}");
    }
    let fields = with(&[("content-length", b"5")]);
    assert_eq!(fate(&proxy, &fields, Some(b"hello")).await, Fate::Status(200));
    let options = [(":method", &b"OPTIONS"[..]), GET[1], GET[2], (":path", b"*")];
    assert_eq!(fate(&proxy, &options, None).await, Fate::Status(200));
    assert_eq!(backend.seen()[6].line(), "OPTIONS * HTTP/1.1");
    proxy.idle().await;
}

#[tokio::test]
async fn the_preface_may_arrive_in_parts() {
    let backend = Backend::responding(HELLO).await;
    let proxy = before("", "", backend.address).await;
    for cut in 1..PREFACE.len() {
        let mut client = proxy.client().await;
        client.send(&PREFACE[..cut]).await;
        // The proxy has read the first part once a later request has a response.
        assert_eq!(proxy.get("/").await.status, 200);
        client.send([&PREFACE[cut..], &frame(SETTINGS, 0, 0, &[])].concat()).await;
        let bytes = frame(HEADERS, END_HEADERS | END_STREAM, 1, &hpack(&GET));
        client.send(bytes).await;
        client.receives("hello").await;
    }
}

#[tokio::test]
async fn bodies_over_the_limit_get_413_and_other_streams_go_on() {
    let backend = Backend::responding(HELLO).await;
    let proxy = before("", "max_request_body = \"100kB\"", backend.address).await;
    let client = Http2Client::connect(proxy.http).await;
    for length in [100_001, 400_000] {
        let mut stream = client.start(request("POST", "/"), false).await;
        stream.sending.send_data(vec![0; length].into(), true).expect("it can be sent");
        let status = stream.reply().await.map(|reply| reply.status);
        assert_eq!(status.expect("a reply"), 413);
    }
    assert_eq!(backend.seen().len(), 0);
    assert_eq!(client.post("/", &[0; 100_000]).await.text(), "hello");
    assert_eq!(backend.seen()[0].body.len(), 100_000);
}

#[tokio::test]
async fn many_streams_share_one_connection() {
    let backend = Backend2::new(|seen| {
        let mut steps = vec![Act::Gate];
        steps.extend(whole(&seen.path().repeat(1000)));
        steps
    })
    .await;
    let proxy = before("", SLOTS, backend.address).await;
    let client = Arc::new(Http2Client::connect(proxy.http).await);
    let mut tasks = JoinSet::new();
    for at in 0..80 {
        let client = Arc::clone(&client);
        tasks.spawn(async move { (at, client.get(&format!("/{at}")).await) });
    }
    backend.has_seen(80).await;
    proxy.load(80, 0, 80).await;
    assert_eq!(backend.connections(), 1);
    backend.open(80);
    while let Some(done) = tasks.join_next().await {
        let (at, reply) = done.expect("no panic");
        assert_eq!((reply.status, reply.text()), (200, format!("/{at}").repeat(1000)));
    }
    proxy.idle().await;
}

#[tokio::test]
async fn a_server_that_permits_few_streams_gets_more_connections() {
    let backend = Backend2::limited(3, |_| [vec![Act::Gate], whole("hello")].concat()).await;
    let proxy = before("", SLOTS, backend.address).await;
    let client = Arc::new(Http2Client::connect(proxy.http).await);
    backend.open(1);
    // The proxy has received the limit before it has a response.
    assert_eq!(client.get("/").await.text(), "hello");
    let mut tasks = JoinSet::new();
    for _ in 0..9 {
        let client = Arc::clone(&client);
        tasks.spawn(async move { client.get("/").await });
    }
    backend.has_seen(10).await;
    assert!((3..=9).contains(&backend.connections()), "{}", backend.connections());
    backend.open(9);
    while let Some(done) = tasks.join_next().await {
        assert_eq!(done.expect("no panic").text(), "hello");
    }
}

#[tokio::test]
async fn a_client_that_resets_a_stream_abandons_this_request_only() {
    let script = |seen: &Seen2| match seen.path() {
        "/head" => vec![Act::Hang],
        "/body" => {
            vec![Act::Head(200, vec![], false), Act::Data(b"begun".into(), false), Act::Hang]
        }
        _ => [vec![Act::Gate], whole("hello")].concat(),
    };
    let backend = Backend2::new(script).await;
    let proxy = before("", SLOTS, backend.address).await;
    let client = Arc::new(Http2Client::connect(proxy.http).await);
    let head = client.start(request("GET", "/head"), true).await;
    let body = client.start(request("GET", "/body"), true).await;
    let other = {
        let client = Arc::clone(&client);
        tokio::spawn(async move { client.get("/other").await })
    };
    backend.has_seen(3).await;
    // A response that is being relayed is no longer a live query, but holds its slot.
    proxy.load(2, 0, 3).await;
    head.reset(Reason::CANCEL);
    proxy.load(1, 0, 2).await;
    let cancelled = |path: &str| (path.to_owned(), Some(Reason::CANCEL));
    eventually("a reset", async || backend.resets() == [cancelled("/head")]).await;
    body.reset(Reason::CANCEL);
    proxy.load(1, 0, 1).await;
    let both = [cancelled("/head"), cancelled("/body")];
    eventually("both resets", async || backend.resets() == both).await;
    backend.open(1);
    assert_eq!(other.await.expect("no panic").text(), "hello");
    assert_eq!((backend.connections(), backend.closed()), (1, 0));
    proxy.idle().await;
    assert_eq!(proxy.count("curtail_requests_total", &[("outcome", "abandoned")]).await, 2);
    // The slots are free.
    backend.open(1);
    assert_eq!(client.get("/").await.text(), "hello");
}

#[tokio::test]
async fn a_reset_stream_resets_the_connection_to_a_server_of_http1() {
    let backend = Backend::silent().await;
    let proxy = before("", "cancel = \"reset\"", backend.address).await;
    let client = Http2Client::connect(proxy.http).await;
    for closed in 1..4 {
        let stream = client.start(request("GET", "/"), true).await;
        backend.has_seen(closed).await;
        proxy.load(1, 0, 1).await;
        stream.reset(Reason::CANCEL);
        proxy.load(0, 0, 0).await;
        eventually("the end", async || backend.closed() == closed).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_abandons_all_its_streams() {
    let backend = Backend2::new(|_| vec![Act::Hang]).await;
    let proxy = before("", SLOTS, backend.address).await;
    let client = Http2Client::connect(proxy.http).await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(client.start(request("GET", "/"), true).await);
    }
    proxy.load(20, 0, 20).await;
    drop(client);
    proxy.load(0, 0, 0).await;
    eventually("the resets", async || backend.resets().len() == 20).await;
    assert!(backend.resets().iter().all(|(_, reason)| *reason == Some(Reason::CANCEL)));
    proxy.disconnected().await;
    assert_eq!(backend.closed(), 0, "the connection to the server remains");
}

#[tokio::test]
async fn a_stream_that_is_not_read_stops_no_other_stream() {
    let large = "x".repeat(60_000);
    let backend = Backend2::new(move |seen| match seen.path() {
        "/whole" => whole(&large),
        "/pieces" => vec![Act::Head(200, vec![], false), Act::Data(large.clone().into(), true)],
        _ => whole("hello"),
    })
    .await;
    // One slot: a stream that held it would stop all others.
    let proxy = before("", "protocol = \"h2\"\ncancel = \"reset\"", backend.address).await;
    let client = Http2Client::with_window(proxy.http, 10).await;
    let mut unread = Vec::new();
    for path in ["/whole", "/pieces", "/whole", "/pieces"] {
        let mut stream = client.start(request("GET", path), true).await;
        let response = (&mut stream.response).await.expect("a head");
        assert_eq!(response.status(), 200);
        unread.push((stream, response));
    }
    for _ in 0..10 {
        assert_eq!(client.get("/").await.text(), "hello");
    }
    // The slot of each response that fits the buffers is free, although nobody has read it.
    eventually("free slots", async || {
        proxy.status().await["services"][0]["shards"][0]["servers"][0]["busy"] == 0
    })
    .await;
    for (_, response) in &mut unread {
        let mut body = 0;
        while let Some(piece) = response.body_mut().data().await {
            let piece = piece.expect("a whole body");
            body += piece.len();
            let flow = response.body_mut().flow_control();
            flow.release_capacity(piece.len()).expect("it was received");
        }
        assert_eq!(body, 60_000);
    }
    proxy.idle().await;
}

#[tokio::test]
async fn a_server_that_goes_away_before_a_request_gets_it_on_a_new_connection() {
    for method in ["GET", "POST"] {
        let posts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&posts);
        // The first connection serves one request and accepts no further one.
        let ok = |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x88]);
        let address = raw_backend(move |connection, received| {
            Some(match (received.kind, connection, received.stream) {
                (HEADERS, 0, 1) => ok(1),
                (HEADERS, 0, _) => goaway(1),
                (HEADERS, ..) => {
                    counted.fetch_add(1, Ordering::SeqCst);
                    ok(received.stream)
                }
                _ => vec![],
            })
        })
        .await;
        let proxy = before("", H2, address).await;
        let client = Http2Client::connect(proxy.http).await;
        let body = if method == "POST" { &b"hello"[..] } else { b"" };
        for _ in 0..3 {
            let reply = client.send(request(method, "/"), body).await.expect("a reply");
            assert_eq!((reply.status, reply.text()), (200, String::new()), "{method}");
        }
        assert_eq!(posts.load(Ordering::SeqCst), 2, "{method}");
        proxy.up(1).await;
    }
}

#[tokio::test]
async fn a_server_that_went_away_while_idle_gets_a_new_connection() {
    let backend = Backend2::new(|seen| match seen.connection {
        0 => [whole("hello"), vec![Act::Close]].concat(),
        _ => whole("again"),
    })
    .await;
    let proxy = before("", H2, backend.address).await;
    let client = Http2Client::connect(proxy.http).await;
    assert_eq!(client.post("/", b"x").await.text(), "hello");
    eventually("the end", async || backend.closed() == 1).await;
    // The end of the connection may arrive later than the request, so a GET comes first.
    assert_eq!(client.get("/").await.text(), "again");
    assert_eq!(client.post("/", b"x").await.text(), "again");
    assert_eq!(backend.connections(), 2);
}

#[tokio::test]
async fn a_refused_stream_is_sent_again() {
    for method in ["GET", "POST"] {
        let seen = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&seen);
        let backend = Backend2::new(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
            1 => vec![Act::Reset(Reason::REFUSED_STREAM)],
            _ => whole("hello"),
        })
        .await;
        let proxy = before("", H2, backend.address).await;
        let client = Http2Client::connect(proxy.http).await;
        for _ in 0..2 {
            let reply = client.send(request(method, "/"), b"").await.expect("a reply");
            assert_eq!((reply.status, reply.text()), (200, "hello".into()), "{method}");
        }
        assert_eq!(seen.load(Ordering::SeqCst), 3, "{method}");
        proxy.up(1).await;
    }
}

#[tokio::test]
async fn a_reset_before_the_response_is_not_repeated_for_a_post() {
    for reason in [Reason::INTERNAL_ERROR, Reason::CANCEL, Reason::PROTOCOL_ERROR] {
        let backend = Backend2::new(move |_| vec![Act::Reset(reason)]).await;
        let proxy = before("", H2, backend.address).await;
        let client = Http2Client::connect(proxy.http).await;
        let reply = client.post("/", b"x").await;
        assert_eq!(reply.status, 502, "{reason:?}: {}", reply.text());
        assert_eq!(backend.seen().len(), 1, "{reason:?}");
        proxy.idle().await;
    }
}

#[tokio::test]
async fn a_response_that_breaks_off_never_ends_cleanly() {
    let long = || vec![("content-length", "1000000".to_owned())];
    for end in [
        vec![Act::Reset(Reason::INTERNAL_ERROR)],
        vec![Act::Reset(Reason::NO_ERROR)],
        vec![Act::Reset(Reason::CANCEL)],
        vec![Act::Close],
        vec![Act::Data(b"end".into(), true)],
    ] {
        for (fields, length_is_wrong) in [(vec![], false), (long(), true)] {
            if !length_is_wrong && matches!(end[..], [Act::Data(..)]) {
                continue;
            }
            let begun = vec![Act::Head(200, fields, false), Act::Data(b"hello".into(), false)];
            // The client has the beginning before the end comes.
            let steps = [begun, vec![Act::Gate], end.clone()].concat();
            let case = format!("{steps:?}");
            let backend = Backend2::new(move |_| steps.clone()).await;
            let proxy = before("", H2, backend.address).await;
            let client = Http2Client::connect(proxy.http).await;
            let mut stream = client.start(request("GET", "/"), true).await;
            let mut response = (&mut stream.response).await.expect("a head");
            assert_eq!(response.status(), 200);
            assert_eq!(response.body_mut().data().await.expect("data").expect("data"), "hello");
            backend.open(1);
            loop {
                match response.body_mut().data().await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => {
                        assert!(error.is_reset() && error.is_remote(), "{case}: {error}");
                        break;
                    }
                    None => panic!("{case}: a clean end"),
                }
            }
            // HTTP/1.1 clients see it, too.
            let mut client = proxy.client().await;
            client.ask("/").await;
            client.receives("hello").await;
            backend.open(1);
            let response = client.response().await;
            assert!(response.status == 200 && !response.whole, "{case}: {response:?}");
            proxy.idle().await;
            assert_eq!(proxy.count("curtail_requests_total", &[("outcome", "cut")]).await, 2);
        }
    }
}

#[tokio::test]
async fn a_server_that_dies_between_head_and_data_is_replaced() {
    let head = |fields| Act::Head(200, fields, false);
    let short = vec![head(vec![("content-length", "5".to_owned())]), Act::Close];
    // A short response is read before it wins, so another replica can still respond.
    let (dying, good) =
        (Backend2::new(move |_| short.clone()).await, Backend2::responding("hello").await);
    let lines = "protocol = \"h2\"\npolicy = \"round-robin\"\nretry_budget = 1.0";
    let proxy = Proxy::start(&config("", &service(lines, &[dying.address, good.address]))).await;
    let client = Http2Client::connect(proxy.http).await;
    for _ in 0..4 {
        assert_eq!(client.get("/").await.text(), "hello");
    }
    assert!(!dying.seen().is_empty());
    // A POST is sent once.
    let alone = before("", H2, dying.address).await;
    let before = dying.seen().len();
    let reply = Http2Client::connect(alone.http).await.post("/", b"x").await;
    assert_eq!((reply.status, dying.seen().len()), (502, before + 1), "{}", reply.text());
}

#[tokio::test]
async fn a_head_over_the_limit_is_not_retried_and_ejects_nothing() {
    for length in [600, 3_000, 40_000] {
        let fields = vec![("x-long", "y".repeat(length)), ("content-length", "0".to_owned())];
        let backend = Backend2::new(move |_| vec![Act::Head(200, fields.clone(), true)]).await;
        let lines = "protocol = \"h2\"\nmax_response_header_bytes = \"512B\"";
        let proxy = before("", lines, backend.address).await;
        let client = Http2Client::connect(proxy.http).await;
        for requests in 1..=10 {
            let reply = client.get("/").await;
            assert_eq!(reply.status, 502, "{length}");
            assert!(reply.text().contains("limit of the proxy"), "{length}: {}", reply.text());
            assert_eq!(backend.seen().len(), requests, "{length}: not sent again");
        }
        let cause = [("cause", "head_too_large")];
        assert!(proxy.metric("curtail_copy_failures_total", &cause).await > 9.5, "{length}");
        assert!(proxy.metric("curtail_ejections_total", &[]).await < 0.5, "{length}");
    }
}

#[tokio::test]
async fn interim_responses_are_skipped() {
    let backend = Backend2::new(|_| {
        let interim = |status| Act::Head(status, vec![("link", "</a>".into())], false);
        [vec![interim(103), interim(103), interim(102)], whole("hello")].concat()
    })
    .await;
    let proxy = before("", H2, backend.address).await;
    let reply = Http2Client::connect(proxy.http).await.get("/").await;
    assert_eq!((reply.status, reply.text()), (200, "hello".into()));
    assert_eq!(values(&reply.fields, "link"), [""; 0]);
    assert_eq!(proxy.get("/").await.text(), "hello");
}

#[tokio::test]
async fn a_server_of_http1_in_place_of_http2_gets_502() {
    let backend =
        Backend::new(|_| vec![say("HTTP/1.1 400 Bad Request\r\n\r\n"), Step::Close]).await;
    let proxy = before("", H2, backend.address).await;
    let reply = Http2Client::connect(proxy.http).await.post("/", b"x").await;
    assert_eq!(reply.status, 502, "{}", reply.text());
    proxy.idle().await;
}

#[tokio::test]
async fn streams_that_are_reset_at_once_are_bounded_and_others_are_served() {
    let backend = Backend2::new(|seen| match seen.path() {
        "/reset" => vec![Act::Hang],
        _ => whole("hello"),
    })
    .await;
    let proxy = before("", SLOTS, backend.address).await;
    let good = Http2Client::connect(proxy.http).await;
    let mut fields = GET;
    fields[3].1 = b"/reset";
    // All frames at once: the streams are reset before they are accepted.
    let mut client = RawClient::connect(proxy.http).await;
    let mut bytes = Vec::new();
    for at in 0..1_000 {
        let stream = 2 * at + 1;
        bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &hpack(&fields)));
        bytes.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
    }
    client.send(&bytes).await;
    for _ in 0..20 {
        assert_eq!(good.get("/").await.text(), "hello");
    }
    assert_eq!(client.fate(u32::MAX).await, Fate::Ended, "the client is disconnected");
    proxy.load(0, 0, 0).await;

    // One after the other: each is abandoned.
    let client = Http2Client::connect(proxy.http).await;
    for _ in 0..300 {
        let Ok(stream) = client.try_start(request("GET", "/reset"), true).await else { break };
        tokio::task::yield_now().await;
        stream.reset(Reason::CANCEL);
    }
    assert_eq!(good.get("/").await.text(), "hello");
    proxy.load(0, 0, 0).await;
}

#[tokio::test]
async fn a_list_of_fields_over_the_limit_is_refused() {
    let backend = Backend::responding(HELLO).await;
    let proxy = before("max_header_bytes = \"1KiB\"\nmax_headers = 20", "", backend.address).await;
    let client = Http2Client::connect(proxy.http).await;
    let long = |fields: usize, length: usize| {
        let mut request = request("GET", "/");
        for at in 0..fields {
            let name: http::HeaderName = format!("x-{at}").parse().expect("a name");
            request.headers_mut().append(name, "y".repeat(length).parse().expect("a value"));
        }
        request
    };
    for (fields, length) in [(1, 1_100), (1, 3_000), (21, 1), (100, 1)] {
        let refused = client.send(long(fields, length), b"").await;
        match &refused {
            Ok(reply) => assert_eq!(reply.status, 431, "{fields} of {length}"),
            Err(error) => assert!(error.is_reset(), "{fields} of {length}: {error}"),
        }
    }
    let refused = Http2Client::connect(proxy.http).await.send(long(1, 100_000), b"").await;
    let error = refused.expect_err("a list that is much too long ends the connection");
    assert_eq!(error.reason(), Some(Reason::ENHANCE_YOUR_CALM));
    assert_eq!(backend.seen().len(), 0);
    let reply = client.send(long(5, 50), b"").await.expect("a reply");
    assert_eq!(reply.text(), "hello");
}

#[tokio::test]
async fn draining_finishes_running_streams_and_refuses_new_ones() {
    let backend = Backend2::new(|_| [vec![Act::Gate], whole("hello")].concat()).await;
    let mut proxy = before("", SLOTS, backend.address).await;
    let mut client = Http2Client::connect(proxy.http).await;
    let mut idle = Http2Client::connect(proxy.http).await;
    backend.open(1);
    assert_eq!(idle.get("/").await.text(), "hello");
    let mut running = Vec::new();
    for _ in 0..3 {
        running.push(client.start(request("GET", "/"), true).await);
    }
    backend.has_seen(4).await;
    proxy.drain();
    idle.ended().await.expect("a clean end");
    // Once GOAWAY has arrived, the client sends nothing more.
    eventually("GOAWAY", async || client.try_start(request("GET", "/late"), true).await.is_err())
        .await;
    backend.open(99);
    for stream in running {
        assert_eq!(stream.reply().await.expect("a reply").text(), "hello");
    }
    client.ended().await.expect("a clean end");
    assert_eq!(proxy.ended().await, 0, "no response was cut off");
}

#[tokio::test]
async fn a_connection_that_is_idle_is_closed() {
    let backend = Backend2::new(|_| [vec![Act::Gate], whole("hello")].concat()).await;
    let listen = "idle_timeout = \"150ms\"\nheader_timeout = \"1s\"";
    let proxy = before(listen, SLOTS, backend.address).await;
    let mut client = Http2Client::connect(proxy.http).await;
    let stream = client.start(request("GET", "/"), true).await;
    backend.has_seen(1).await;
    // A running request is not idleness, even if it lasts longer.
    tokio::time::sleep(std::time::Duration::from_millis(400)).await; // tidy: real time
    backend.open(1);
    assert_eq!(stream.reply().await.expect("a reply").text(), "hello");
    client.ended().await.expect("a clean end");
    // A client that answers nothing is disconnected, too.
    let mut silent = RawClient::connect(proxy.http).await;
    assert_eq!(silent.fate(1).await, Fate::Ended);
    proxy.disconnected().await;
}

#[tokio::test]
async fn a_body_that_stalls_gets_408() {
    let backend = Backend::responding(HELLO).await;
    let proxy = before("body_timeout = \"100ms\"", "", backend.address).await;
    let client = Http2Client::connect(proxy.http).await;
    let mut stream = client.start(request("POST", "/"), false).await;
    stream.sending.send_data(Bytes::from_static(b"begun"), false).expect("it can be sent");
    assert_eq!(stream.reply().await.expect("a reply").status, 408);
    assert_eq!(client.get("/").await.text(), "hello");
    assert_eq!(backend.seen().len(), 1);
}

#[tokio::test]
async fn the_same_targets_and_hosts_pass_in_both_versions() {
    let (old, new) = (Backend::responding(HELLO).await, Backend2::responding("hello").await);
    let proxies = [before("", "", old.address).await, before("", H2, new.address).await];
    let bytes = (b'!'..=b'~').map(|byte| format!("/a{}b", char::from(byte)));
    let targets = bytes.map(|target| (target, "x"));
    let hosts = ["x:80", "[::1]:80", "a_b", "127.1", "-"];
    for (target, host) in targets.chain(hosts.map(|host| ("/".to_owned(), host))) {
        let mut statuses = Vec::new();
        for proxy in &proxies {
            let mut client = proxy.client().await;
            client.send(format!("GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n")).await;
            statuses.push(client.response().await.status);
        }
        assert_eq!(statuses[0], statuses[1], "{target} {host}");
        if statuses[0] == 200 {
            let one = old.seen().pop().expect("a request");
            let two = new.seen().pop().expect("a request");
            // Some bytes are percent-encoded on the way.
            let path = percent_encoding::percent_decode_str(two.path()).decode_utf8_lossy();
            assert_eq!(one.line(), format!("GET {path} HTTP/1.1"));
            assert_eq!(one.header("host"), [two.authority()]);
        }
    }
}

#[tokio::test]
async fn a_client_that_waits_for_100_may_send_its_body() {
    let backend = Backend2::responding("hello").await;
    let proxy = before("", H2, backend.address).await;
    let client = Http2Client::connect(proxy.http).await;
    let mut expecting = request("POST", "/");
    expecting.headers_mut().append("expect", "100-continue".parse().expect("a value"));
    let mut stream = client.start(expecting, false).await;
    let response = &mut stream.response;
    let interim =
        within("100", std::future::poll_fn(|context| response.poll_informational(context)));
    assert_eq!(interim.await.expect("a response").expect("no error").status(), 100);
    stream.sending.send_data(Bytes::from_static(b"body"), true).expect("it can be sent");
    assert_eq!(stream.reply().await.expect("a reply").text(), "hello");
    let seen = backend.seen().remove(0);
    assert_eq!((&*seen.body, seen.header("expect").len()), (&b"body"[..], 0));
}

#[tokio::test]
async fn responses_that_are_not_valid_reach_no_client() {
    const STATUS: (&str, &[u8]) = (":status", b"200");
    for (fields, ends) in [
        (vec![(":status", &b"101"[..])], true),
        (vec![(":status", b"100")], true),
        (vec![(":status", b"101")], false),
        (vec![(":status", b"abc")], true),
        (vec![(":status", b"999")], true),
        (vec![(":status", b"")], true),
        (vec![("x-a", b"1")], true),
        (vec![STATUS, STATUS], true),
        (vec![STATUS, ("connection", b"close")], true),
        (vec![STATUS, ("transfer-encoding", b"chunked")], true),
        (vec![STATUS, ("upgrade", b"x")], true),
        (vec![STATUS, ("X-Upper", b"1")], true),
        (vec![STATUS, ("x-line", b"1\r\nx-more: 2")], true),
        (vec![STATUS, ("x bad", b"1")], true),
        (vec![STATUS, ("content-length", b"5")], true),
        (vec![STATUS, ("content-length", b"-5")], true),
        (vec![STATUS, ("content-length", b"5"), ("content-length", b"6")], false),
    ] {
        let case = format!("{fields:?}");
        let block = hpack(&fields);
        let flags = if ends { END_HEADERS | END_STREAM } else { END_HEADERS };
        let address = raw_backend(move |_, received| {
            Some(match received.kind {
                HEADERS if ends => frame(HEADERS, flags, received.stream, &block),
                HEADERS => {
                    let body = frame(DATA, END_STREAM, received.stream, b"hello");
                    [frame(HEADERS, flags, received.stream, &block), body].concat()
                }
                _ => vec![],
            })
        })
        .await;
        let proxy = before("", H2, address).await;
        let response = proxy.client().await.post("/", "x").await;
        assert_eq!(response.status, 502, "{case}: {}", response.text());
        proxy.idle().await;
    }
}

#[tokio::test]
async fn a_server_that_goes_away_finishes_what_it_has_begun() {
    let address = raw_backend(|connection, received| {
        Some(match (received.kind, connection) {
            (HEADERS, 0) => {
                let head = frame(HEADERS, END_HEADERS, received.stream, &[0x88]);
                let body = frame(DATA, END_STREAM, received.stream, b"first");
                [goaway(received.stream), head, body].concat()
            }
            (HEADERS, _) => frame(HEADERS, END_HEADERS | END_STREAM, received.stream, &[0x88]),
            _ => vec![],
        })
    })
    .await;
    let proxy = before("", H2, address).await;
    let mut client = proxy.client().await;
    assert_eq!(client.get("/").await.text(), "first");
    for _ in 0..3 {
        let response = client.post("/", "x").await;
        assert_eq!((response.status, response.text()), (200, String::new()));
    }
}

#[tokio::test]
async fn a_server_that_accepts_no_stream_at_all_is_replaced_also_for_a_post() {
    let bad = raw_backend(|_, received| match received.kind {
        HEADERS => Some(goaway(0)),
        _ => Some(vec![]),
    })
    .await;
    let good = Backend2::responding("hello").await;
    let lines = "protocol = \"h2\"\npolicy = \"round-robin\"\nretry_budget = 1.0";
    let proxy = Proxy::start(&config("", &service(lines, &[bad, good.address]))).await;
    let client = Http2Client::connect(proxy.http).await;
    for requests in 1..5 {
        assert_eq!(client.post("/", b"x").await.text(), "hello");
        assert_eq!(good.seen().len(), requests);
    }
}

#[tokio::test]
async fn health_checks_and_load_probes_use_the_protocol_of_the_service() {
    let backend = Backend2::new(|seen| match seen.path() {
        "/health" => vec![Act::Head(503, vec![], true)],
        _ => whole("hello"),
    })
    .await;
    for (path, up) in [("/health", 0), ("/", 1)] {
        let health = format!("health = {{ path = \"{path}\", interval = \"20ms\" }}");
        let proxy = before("", &format!("{H2}\n{health}"), backend.address).await;
        eventually("a check", async || backend.seen().iter().any(|seen| seen.path() == path)).await;
        proxy.up(up).await;
    }
}
