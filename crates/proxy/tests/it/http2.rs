//! Tests HTTP/2 on both sides: what passes, what is refused, and how streams and connections end.

use crate::harness::http2::{
    Act, Backend2, DATA, END_HEADERS, END_STREAM, Fate, GET, H2, HEADERS, Http2Client, PREFACE,
    RawClient, SETTINGS, Seen2, frame, hpack, request, values,
};
use crate::harness::{Backend, Client, HELLO, Proxy, Replica, say};

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

impl Replica for Echo {
    fn place(&self) -> String {
        match self {
            Self::Http1(backend) => backend.place(),
            Self::Http2(backend) => backend.place(),
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
        let proxy = Proxy::serving(protocol, &[&echo]).await;
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
            let forged = ["x-forwarded-proto: https", "x_forwarded_proto: https"];
            let fields = ["x-one: 1", "x-two: a", "x-two: b", "cookie: a=1; b=2"];
            let fields = [&fields[..], &forged].concat();
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
            assert_eq!(seen.values("x-forwarded-proto"), ["http"], "{case}");
            assert_eq!(seen.values("x_forwarded_proto"), [""; 0], "{case}");
            let via = if client_http2 { "2.0 curtail" } else { "1.1 curtail" };
            assert_eq!(seen.values("via"), [via], "{case}");
            assert!(seen.body == body, "{case}: {} bytes", seen.body.len());
            for hop in ["connection", "keep-alive", "x-hop", "te"] {
                assert_eq!(response.values(hop), [""; 0], "{case}: {hop}");
                assert_eq!(seen.values(hop), [""; 0], "{case}: {hop}");
            }
            // The proxy does not know the length of a long body that it relays.
            let is_chunked = !replica_http2 && length > 64 << 10;
            assert_eq!(seen.values("transfer-encoding").is_empty(), !is_chunked, "{case}");
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
    let proxy = Proxy::serving(H2, &[&backend]).await;
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
    let proxy = Proxy::serving("", &[&backend]).await;
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
    let proxy = Proxy::serving(H2, &[&backend]).await;
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
        let proxy = Proxy::serving(H2, &[&backend]).await;
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
        let proxy = Proxy::serving(H2, &[&backend]).await;
        let reply = Http2Client::connect(proxy.http).await.get("/").await;
        let trailers = reply.trailers.expect("trailers");
        assert_eq!(values(&trailers, "grpc-status"), ["5"]);
        assert!(proxy.get("/").await.whole);
    }
}

type Fields<'a> = &'a [(&'a str, &'a [u8])];

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
        vec![GET[0], GET[1], GET[2], GET[3], (":protocol", b"websocket")],
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
    let proxy = Proxy::serving("", &[&backend]).await;
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
        vec![(":method", &b"CONNECT"[..]), GET[1], GET[2], GET[3], (":protocol", b"other")],
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
    let proxy = Proxy::serving("", &[&backend]).await;
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
    // The proxy reads bodies of unknown length in full up to `replay_bytes`.
    let lines = "max_request_body = \"100kB\"\nreplay_bytes = \"1MB\"";
    let proxy = Proxy::serving(lines, &[&backend]).await;
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
async fn a_host_is_valid_for_all_replicas_or_for_none() {
    for is_http2 in [false, true] {
        let echo = Echo::new(is_http2).await;
        let proxy = Proxy::serving(if is_http2 { H2 } else { "" }, &[&echo]).await;
        for (host, status) in [("a_b:80", 200), ("[::1]:80", 200), ("a%20b", 400), ("a|b", 400)] {
            let mut client = proxy.client().await;
            client.send(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n")).await;
            assert_eq!(client.response().await.status, status, "{host} {is_http2}");
            if status == 200 {
                assert_eq!(echo.last().line, format!("GET / {host}"));
            }
        }
        // A request without a host is for the host that it reached.
        let mut client = proxy.client().await;
        client.send("GET / HTTP/1.1\r\nhost:\r\n\r\n").await;
        assert_eq!(client.response().await.status, 200, "{is_http2}");
        assert_eq!(echo.last().line, format!("GET / {}", proxy.http));
    }
}
