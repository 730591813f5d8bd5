//! Tests the meaning of valid request heads, and the statuses with which invalid ones are rejected.

use std::time::Instant;

use crate::common::{all_verdicts, cuts, head_limits, nearly};
use bytes::BytesMut;
use curtail_http::h1::{
    Framing, Limits, Reject, RequestHead, Version, is_hop_by_hop, parse_request,
};
use proptest::prelude::*;

fn parse(bytes: &[u8]) -> Result<Option<RequestHead>, Reject> {
    parse_request(&mut BytesMut::from(bytes), &Limits::default())
}

fn accepted(text: &str) -> RequestHead {
    parse(text.as_bytes()).expect("not refused").expect("complete")
}

fn status(text: impl AsRef<[u8]>) -> u16 {
    parse(text.as_ref()).expect_err("refused").status()
}

#[test]
fn the_parts_of_a_head_are_as_sent() {
    let head = accepted(
        "POST /a/b?c=d HTTP/1.1\r\nHost: leaf:80\r\nX-Empty:\r\nAccept:\t one \r\naccept: two\r\n\
         Content-Length: 5\r\n\r\nhello",
    );
    assert_eq!((head.method(), head.target()), ("POST", "/a/b?c=d"));
    assert_eq!(head.version(), Version::Http11);
    assert_eq!(head.header("HOST"), Some(&b"leaf:80"[..]));
    assert_eq!(head.header("x-empty"), Some(&b""[..]));
    assert_eq!(head.header("accept"), Some(&b"one"[..]));
    assert_eq!(head.header("missing"), None);
    assert_eq!(head.values("ACCEPT").collect::<Vec<_>>(), [&b"one"[..], b"two"]);
    assert_eq!(head.values("missing").count(), 0);
    let names: Vec<_> = head.headers().map(|(name, _)| name).collect();
    assert_eq!(names, ["Host", "X-Empty", "Accept", "accept", "Content-Length"]);
    assert_eq!(head.framing(), Framing::Length(5));
    assert!(head.keep_alive() && !head.expects_continue() && !head.is_head());
}

#[test]
fn takes_one_head_and_leaves_the_rest() {
    let mut buf = BytesMut::from("\r\n\r\nGET /1 HTTP/1.0\r\n\r\nGET /2 HTTP/1.0\r\n\r\nrest");
    for target in ["/1", "/2"] {
        let head = parse_request(&mut buf, &Limits::default()).unwrap().unwrap();
        assert_eq!(head.target(), target);
    }
    assert_eq!(buf, "rest");
}

#[test]
fn an_incomplete_head_is_not_an_error() {
    let whole = b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for end in 0..whole.len() {
        assert!(parse(&whole[..end]).expect("not refused").is_none(), "{end}");
    }
}

#[test]
fn parses_the_forms_of_a_target() {
    let head = accepted("GET http://other:81/p?q HTTP/1.1\r\nHost: leaf\r\n\r\n");
    assert_eq!(head.target(), "http://other:81/p?q");
    assert_eq!(head.path_and_query(), "/p?q");
    assert_eq!(head.authority(), Some(&b"other:81"[..]));
    let head = accepted("GET HTTP://other HTTP/1.1\r\nHost: leaf\r\n\r\n");
    assert_eq!(head.path_and_query(), "/");
    let head = accepted("GET /?u=http://x/y HTTP/1.1\r\nHost: leaf\r\n\r\n");
    assert_eq!(head.path_and_query(), "/?u=http://x/y");
    assert_eq!(head.authority(), Some(&b"leaf"[..]));
    assert_eq!(accepted("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").path_and_query(), "*");

    for target in ["*", "a", "ftp://a/", "http://", "http:///x", "http://u@h/", "http://h?q", "/#f"]
    {
        assert_eq!(status(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")), 400, "{target}");
    }
    assert_eq!(status("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"), 501);
}

#[test]
fn persistence_follows_version_and_connection() {
    let keeps = |line: &str| accepted(&format!("GET / {line}\r\nHost: a\r\n\r\n")).keep_alive();
    assert!(keeps("HTTP/1.1"));
    assert!(!keeps("HTTP/1.1\r\nConnection: x, Close"));
    assert!(!keeps("HTTP/1.1\r\nConnection: keep-alive\r\nConnection: close"));
    assert!(!keeps("HTTP/1.0"));
    assert!(keeps("HTTP/1.0\r\nConnection: Keep-Alive"));
}

#[test]
fn expects_continue_only_with_a_body_in_http11() {
    let expects = |line: &str| {
        accepted(&format!("POST / {line}\r\nHost: a\r\nExpect: 100-Continue\r\n\r\n"))
            .expects_continue()
    };
    assert!(expects("HTTP/1.1\r\nContent-Length: 1"));
    assert!(!expects("HTTP/1.1"));
    assert!(!expects("HTTP/1.0\r\nContent-Length: 1"));
}

#[test]
fn hop_by_hop_fields_are_not_relayed() {
    let head = accepted(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-One, host\r\nTE: trailers\r\n\
         x-one: 1\r\nX-Two: 2\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nProxy-Connection: x\r\n\r\n",
    );
    let names: Vec<_> = head.end_to_end().map(|(name, _)| name).collect();
    assert_eq!(names, [b"Host".as_slice(), b"X-Two"]);
    for name in [
        "Connection",
        "keep-alive",
        "Proxy-Authenticate",
        "proxy-authorization",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "upgrade",
    ] {
        assert!(is_hop_by_hop(name.as_bytes()), "{name}");
    }
    assert!(!is_hop_by_hop(b"Host") && !is_hop_by_hop(b"") && !is_hop_by_hop(b"cookie"));
}

/// A proxy drops the fields that `Connection` names. If a request has 200 fields, the proxy must
/// not read these names 200 times.
#[test]
fn the_names_that_connection_lists_are_read_once() {
    let limits = Limits { head_bytes: 1 << 20, headers: 256, ..Limits::default() };
    let relay = |fields: usize| {
        let fields: String = (0..fields).map(|at| format!("x-{at}: y\r\n")).collect();
        let names = "a, ".repeat(200_000);
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: {names}\r\n{fields}\r\n");
        let head = parse_request(&mut BytesMut::from(&*text), &limits).unwrap().unwrap();
        let time = |_| {
            let start = Instant::now();
            assert_eq!(head.end_to_end().count(), 1 + fields.matches("x-").count());
            start.elapsed()
        };
        (0..5).map(time).min().expect("five")
    };
    let (few, many) = (relay(2), relay(200));
    assert!(many < 10 * few, "{many:?} for 200 fields, {few:?} for 2");
}

#[test]
fn refuses_malformed_heads_with_400() {
    for text in [
        "GET /\r\nHost: a\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1x\r\nHost: a\r\n\r\n",
        "GET / HTTQ/1.1\r\nHost: a\r\n\r\n",
        "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\u{fc} HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
    ] {
        assert_eq!(status(text), 400, "{text:?}");
    }
}

#[test]
fn the_error_names_an_invalid_byte_of_a_target() {
    for (text, byte, shown) in [
        (&b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"[..], 0, "0x00"),
        (b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 0xff, "0xff"),
        (b"GET /\t HTTP/1.1\r\nHost: a\r\n\r\n", b'\t', "0x09"),
        (b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", b'#', "0x23"),
    ] {
        let reject = parse(text).expect_err("refused");
        assert_eq!((reject, reject.status()), (Reject::TargetByte(byte), 400));
        assert!(reject.to_string().contains(&format!("the byte {shown},")), "{reject}");
    }
    let words = parse(b"GET /\r\nHost: \xff\r\n\r\n").expect_err("refused");
    assert_eq!(words, Reject::Malformed("the request line is not three words"));
}

#[test]
fn a_host_has_a_name_and_a_valid_port() {
    let host = |target: &str, host: &str| {
        parse(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
    };
    for fine in ["a", "a:", "a:0", "a:080", "a:65535", "a_b.c-d", "1.2.3.4:5", "[::1]", "[::1]:80"]
    {
        assert!(host("/", fine).is_ok(), "{fine}");
        assert!(host(&format!("http://{fine}/"), "a").is_ok(), "{fine}");
    }
    for wrong in [
        "a:65536",
        "a:99999",
        "a:999999999999999999999",
        "a:x",
        "a:+80",
        "a:-1",
        "a:80:80",
        ":80",
        ":",
        "::1",
        "[::1",
        "[]",
        "[::1]80",
        "[::1]:x",
        "a[::1]",
        "[a]]",
        "[1:2:3:4:5:6:7:8:9:a]",
        "a%2fb",
        "a|b",
        "a^b",
        "a`b",
        "[::1%25eth0]",
    ] {
        let refused = Reject::Malformed("Host is not a host and port");
        assert_eq!(host("/", wrong).expect_err(wrong), refused, "{wrong}");
        assert_eq!(host(&format!("http://{wrong}/"), "a").expect_err(wrong).status(), 400);
    }
    // An empty `Host` is valid only if the target names no host.
    assert_eq!(host("/", "").expect("fine").expect("complete").authority(), Some(&b""[..]));
    assert_eq!(host("http://a/", "").expect_err("refused").status(), 400);
}

proptest! {
    /// A head with another `Host` could be relayed over HTTP/1.1 but not over HTTP/2.
    #[test]
    fn every_host_is_an_authority_of_http2(host in "[!-~]{1,5}|\\[[0-9a-z:.%]{1,20}\\](:[0-9]{0,5})?") {
        let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        if parse(text.as_bytes()).is_ok() {
            prop_assert!(http::uri::Authority::try_from(host.as_str()).is_ok(), "{}", host);
        }
    }
}

#[test]
fn refuses_at_once_bytes_that_cannot_become_a_request() {
    assert_eq!(status(b"\x16\x03\x01\x02\x00"), 400, "a TLS hello");
    assert_eq!(status("\rG"), 400);
    assert_eq!(status("\n"), 400);
    assert_eq!(status("GET\r"), 400);
}

#[test]
fn refuses_other_versions_with_505() {
    for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/3", "HTTP/9.9"] {
        assert_eq!(status(format!("GET / {version}\r\nHost: a\r\n\r\n")), 505, "{version}");
    }
    assert_eq!(status("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
}

#[test]
fn a_higher_minor_version_is_read_like_the_highest_known_one() {
    for version in ["HTTP/1.2", "HTTP/1.9"] {
        let text = format!("GET /a {version}\r\nHost: a\r\nX: y\r\n\r\nrest");
        let mut buf = BytesMut::from(text.as_str());
        let head = parse_request(&mut buf, &Limits::default()).expect("valid").expect("complete");
        assert_eq!((head.version(), head.target()), (Version::Http11, "/a"));
        assert!(head.keep_alive() && head.header("x") == Some(b"y"));
        assert_eq!(&buf[..], b"rest");
        assert_eq!(status(format!("GET / {version}\r\n\r\n")), 400, "Host is required");
    }
}

#[test]
fn limits_are_exact_and_named() {
    let text = "GET /long HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
    let with = |limits: Limits| parse_request(&mut BytesMut::from(text), &limits);
    let base = Limits::default();
    assert!(with(Limits { head_bytes: text.len(), ..base }).unwrap().is_some());
    let limit = text.len() - 1;
    let refused = with(Limits { head_bytes: limit, ..base }).unwrap_err();
    assert_eq!((refused, refused.status()), (Reject::HeadTooLarge(limit), 431));
    let refused = with(Limits { head_bytes: 12, ..base }).unwrap_err();
    assert_eq!((refused, refused.status()), (Reject::TargetTooLong(12), 414));
    assert!(refused.to_string().contains("12 bytes"));
    assert!(with(Limits { headers: 2, ..base }).unwrap().is_some());
    let refused = with(Limits { headers: 1, ..base }).unwrap_err();
    assert_eq!((refused, refused.status()), (Reject::TooManyHeaders(1), 431));
    assert!(with(Limits { headers: usize::MAX, ..base }).unwrap().is_some());
}

#[test]
fn a_declared_body_over_the_limit_is_refused_before_it_arrives() {
    let limits = Limits { body_bytes: 10, ..Limits::default() };
    let with = |length: &str| {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        parse_request(&mut BytesMut::from(text.as_str()), &limits)
    };
    assert!(with("10").unwrap().is_some());
    let refused = with("11").unwrap_err();
    assert_eq!((refused, refused.status()), (Reject::BodyTooLarge(10), 413));
    assert_eq!(with("18446744073709551615").unwrap_err().status(), 413);
}

const STARTS: &[&str] =
    &["", "\r\n", "GET /1 HTTP/1.1\r\nHost: a\r\n", "PUT http://a/2 HTTP/1.0\r\n"];

const PIECES: &[&str] = &[
    "GET ",
    "POST ",
    "/path",
    "http://h/p",
    " HTTP/1.1",
    " HTTP/1.0",
    " HTTP/2.0",
    "GET / HTTP/1.1\r\nHost: a\r\n",
    "POST /x HTTP/1.1\r\nHost: a\r\n",
    "\r\n",
    "\r\n",
    "\r\n\r\n",
    "\r",
    "\n",
    " ",
    "Host: a\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: +5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "X-Thing: some value\r\n",
    "X-Empty:\r\n",
    " folded\r\n",
];

proptest! {
    #[test]
    fn the_verdict_does_not_depend_on_the_cuts(
        input in nearly(STARTS, PIECES), sizes in cuts(), limits in head_limits(),
    ) {
        let verdicts = |sizes| all_verdicts(&input, sizes, |buf| parse_request(buf, &limits));
        prop_assert_eq!(verdicts(&[]), verdicts(&sizes));
    }
}
