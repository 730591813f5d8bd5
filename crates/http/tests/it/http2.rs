//! Tests the conversion between messages of HTTP/2 and heads: what is kept, and what is rejected.

use curtail_http::h1::{
    BadResponse, Framing, Limits, Reject, RequestHead, ResponseHead, Version, WriteError,
};
use curtail_http::h2::{Outgoing, request_head, response_head, to_request};
use http::header::{HeaderName, HeaderValue};
use http::{Request, Response};
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    head_bytes: 1_000,
    headers: 20,
    body_bytes: 1_000,
    chunk_line_bytes: 100,
    chunk_extension_bytes: 100,
    trailer_bytes: 100,
    linger_bytes: 100,
};

/// Converts a request with these fields. `ends` states whether it has no body.
fn request(
    method: &str,
    uri: &str,
    fields: &[(&str, &[u8])],
    ends: bool,
) -> Result<RequestHead, Reject> {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).expect("a request").into_parts();
    request_head(&parts, ends, &LIMITS)
}

fn response(
    status: u16,
    fields: &[(&str, &str)],
    to_head: bool,
    ends: bool,
) -> Result<ResponseHead, BadResponse> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    let (parts, ()) = response.body(()).expect("a response").into_parts();
    response_head(&parts, to_head, ends, &LIMITS)
}

#[test]
fn a_request_keeps_its_parts() {
    let fields: [(&str, &[u8]); 6] = [
        ("accept", b"one"),
        ("accept", b"two"),
        ("cookie", b"a=1"),
        ("x-empty", b""),
        ("cookie", b"b=2; c=3"),
        ("x-bytes", b"\xff\t1"),
    ];
    let head = request("GET", "https://leaf.example:81/a/b?c=d%20e", &fields, true).expect("good");
    assert_eq!((head.method(), head.target()), ("GET", "/a/b?c=d%20e"));
    assert_eq!((head.version(), head.framing()), (Version::Http2, Framing::Empty));
    assert_eq!(head.authority(), Some(&b"leaf.example:81"[..]));
    assert_eq!(head.values("accept").collect::<Vec<_>>(), [&b"one"[..], b"two"]);
    assert_eq!(head.values("cookie").collect::<Vec<_>>(), [b"a=1; b=2; c=3"]);
    assert_eq!(head.header("x-empty"), Some(&b""[..]));
    assert_eq!(head.header("x-bytes"), Some(&b"\xff\t1"[..]));
    assert!(!head.expects_continue() && !head.is_head());
    assert!(request("HEAD", "http://x/", &[], true).expect("good").is_head());
}

#[test]
fn the_authority_may_be_in_either_place_and_must_not_be_ambiguous() {
    let host = |uri, hosts: &[&[u8]]| {
        let fields: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
        let head = request("GET", uri, &fields, true).ok()?;
        assert_eq!(head.values("host").count(), 1);
        head.authority().map(<[u8]>::to_vec)
    };
    assert_eq!(host("http://x/", &[]).as_deref(), Some(&b"x"[..]));
    assert_eq!(host("http://x/", &[b"X"]).as_deref(), Some(&b"x"[..]));
    assert_eq!(host("/", &[b"y:80"]).as_deref(), Some(&b"y:80"[..]));
    for (uri, hosts) in [
        ("/", &[][..]),
        ("/", &[&b"x"[..], b"x"]),
        ("http://x/", &[b"y"]),
        ("http://x/", &[b"x", b"x"]),
        ("http://x/", &[b"x:80"]),
        ("http://x/", &[b""]),
        ("http://user@x/", &[]),
        ("/", &[b"a b"]),
        ("/", &[b"user@x"]),
        ("/", &[b"x/y"]),
    ] {
        assert_eq!(host(uri, hosts), None, "{uri} {hosts:?}");
    }
}

#[test]
fn the_framing_is_that_of_the_frames() {
    let length = |text: &'static str| [("content-length", text.as_bytes())];
    for (fields, ends, framing) in [
        (&[][..], true, Some(Framing::Empty)),
        (&[], false, Some(Framing::Chunked)),
        (&length("5"), false, Some(Framing::Length(5))),
        (&length("5"), true, None),
        (&length("0"), true, Some(Framing::Empty)),
        (&length("+5"), false, None),
        (&length("5, 6"), false, None),
        (&length(""), false, None),
        (&[length("5"), length("6")].concat(), false, None),
    ] {
        let head = request("POST", "http://x/", fields, ends);
        assert_eq!(head.ok().map(|head| head.framing()), framing, "{fields:?} {ends}");
    }
}

#[test]
fn fields_of_a_connection_are_rejected() {
    for (name, value) in [
        ("connection", "close"),
        ("connection", ""),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "close"),
        ("transfer-encoding", "chunked"),
        ("transfer-encoding", "identity"),
        ("upgrade", "h2c"),
        ("te", "deflate"),
        ("te", "trailers, deflate"),
        ("te", ""),
    ] {
        let rejected = request("GET", "http://x/", &[(name, value.as_bytes())], true);
        assert_eq!(rejected.expect_err(name).status(), 400, "{name}: {value}");
        let rejected = response(200, &[(name, value)], false, true).expect_err(name);
        assert!(matches!(rejected, BadResponse::Malformed(_)), "{name}: {value}: {rejected}");
    }
    for value in [&b"trailers"[..], b"Trailers"] {
        assert!(request("GET", "http://x/", &[("te", value)], true).is_ok());
    }
}

#[test]
fn targets_are_those_of_http1() {
    let target = |method, uri| request(method, uri, &[], true).map(|head| head.target().to_owned());
    assert_eq!(target("OPTIONS", "*"), Err(Reject::Malformed("neither :authority nor Host")));
    let host: [(&str, &[u8]); 1] = [("host", b"x")];
    let asterisk = request("OPTIONS", "*", &host, true).expect("good");
    assert_eq!(asterisk.target(), "*");
    assert!(request("GET", "*", &host, true).is_err());
    assert_eq!(target("GET", "http://x").as_deref(), Ok("/"));
    assert_eq!(target("GET", "http://x?a").expect_err("no path").status(), 400);
    for uri in ["x:1", "http://x/"] {
        assert_eq!(target("CONNECT", uri).expect_err(uri), Reject::Connect);
    }
}

#[test]
fn the_limits_are_those_of_http1() {
    let long = vec![b'y'; 1_000];
    let status = |uri: &str, fields: &[(&str, &[u8])]| {
        request("GET", uri, fields, true).map_or_else(|reject| reject.status(), |_| 200)
    };
    assert_eq!(status("http://x/", &[("x-long", &long)]), 431);
    assert_eq!(status("http://x/", &[("x-long", &long[..900])]), 200);
    assert_eq!(status("http://x/", &[("x-short", &b"1"[..]); 20]), 431, "Host is a field, too");
    assert_eq!(status("http://x/", &[("x-short", &b"1"[..]); 19]), 200);
    assert_eq!(status(&format!("http://x/{}", "y".repeat(1_000)), &[]), 414);
    let long = "y".repeat(1_000);
    let refused = response(200, &[("x-long", &long)], false, true).expect_err("too long");
    assert!(refused.is_over_a_limit(), "{refused}");
    let refused = response(200, &[("x-short", "1"); 21], false, true).expect_err("too many");
    assert!(refused.is_over_a_limit(), "{refused}");
}

#[test]
fn a_response_keeps_its_parts_and_has_the_framing_of_its_frames() {
    let head =
        response(404, &[("x-a", "1"), ("set-cookie", "a"), ("set-cookie", "b")], false, true);
    let head = head.expect("good");
    assert_eq!((head.status(), head.version()), (404, Version::Http2));
    assert_eq!(head.header("x-a"), Some(&b"1"[..]));
    assert_eq!(head.values("set-cookie").count(), 2);
    let five = &[("content-length", "5")][..];
    let none = &[("content-length", "0")][..];
    for (status, fields, to_head, ends, framing) in [
        (200, &[][..], false, true, Some(Framing::Empty)),
        (200, &[], false, false, Some(Framing::Chunked)),
        (200, five, false, false, Some(Framing::Length(5))),
        (200, five, false, true, None),
        (200, five, true, true, Some(Framing::Empty)),
        (200, none, false, true, Some(Framing::Empty)),
        (204, &[], false, true, Some(Framing::Empty)),
        (204, &[], false, false, Some(Framing::Empty)),
        (304, five, false, true, Some(Framing::Empty)),
        (304, &[], false, true, Some(Framing::Empty)),
        (200, &[("content-length", "-1")], false, false, None),
        (101, &[], false, true, None),
        (999, &[], false, true, None),
    ] {
        let head = response(status, fields, to_head, ends);
        let case = format!("{status} {fields:?} {to_head} {ends}");
        assert_eq!(head.ok().map(|head| head.framing()), framing, "{case}");
    }
}

fn outgoing<'a>(method: &'a str, target: &'a str, lines: &'a [u8]) -> Outgoing<'a> {
    Outgoing { method, target, secure: false, lines: [lines, b""], length: Some(0), protocol: None }
}

#[test]
fn a_request_is_sent_with_its_parts() {
    let first = b"Host: leaf:80\r\nX-One: 1\r\nx-one:2\r\nx-empty:\r\n";
    let sent = Outgoing {
        secure: true,
        lines: [first, b"priority: u=7\r\n"],
        length: Some(5),
        ..outgoing("POST", "/a?b=%20", b"")
    };
    let request = to_request(&sent).expect("it can be sent");
    assert_eq!(request.method(), "POST");
    assert_eq!(request.uri(), "https://leaf:80/a?b=%20");
    let fields: Vec<_> =
        request.headers().iter().map(|(name, value)| (name.as_str(), value)).collect();
    for (name, value) in [
        ("x-one", "1"),
        ("x-one", "2"),
        ("x-empty", ""),
        ("priority", "u=7"),
        ("content-length", "5"),
    ] {
        assert!(fields.contains(&(name, &HeaderValue::from_static(value))), "{name} in {fields:?}");
    }
    assert_eq!(fields.len(), 5, "without Host: {fields:?}");

    let request = to_request(&outgoing("OPTIONS", "*", b"host: x\r\n")).expect("it can be sent");
    assert_eq!(request.uri().path(), "*");
    assert_eq!(request.uri().scheme_str(), Some("http"));
    assert_eq!(request.headers().len(), 0, "an empty body has no length");

    let request = to_request(&outgoing("GET", "/<a>?`b", b"host: x\r\n")).expect("it can be sent");
    assert_eq!(request.uri().path_and_query().expect("a target"), "/%3Ca%3E?%60b");
}

#[test]
fn a_request_that_http2_cannot_carry_is_not_sent() {
    let error = |method, target, lines| to_request(&outgoing(method, target, lines)).err();
    assert_eq!(error("G T", "/", b"host: x\r\n"), Some(WriteError::Method));
    assert_eq!(error("GET", "/a b", b"host: x\r\n"), Some(WriteError::Target));
    assert_eq!(error("GET", "/", b"host: a b\r\n"), Some(WriteError::FieldValue));
    assert_eq!(error("GET", "/", b"host: x\r\nx-nul: \0\r\n"), Some(WriteError::FieldValue));
    assert_eq!(error("GET", "/", b"host: x\r\nbad name: 1\r\n"), Some(WriteError::FieldName));
    assert_eq!(error("GET", "/", b"host: x\r\nno colon\r\n"), Some(WriteError::FieldName));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a peer sends, no field and no request is added, and none is lost.
    #[test]
    fn a_head_has_exactly_the_fields_of_its_message(
        fields in prop::collection::vec(("[a-z0-9!#$-]{1,5}", prop::collection::vec(any::<u8>(), 0..6)), 0..6),
        path in "/[!-~\u{e9}]{0,5}",
    ) {
        let mut parts = Request::new(()).into_parts().0;
        parts.uri = match format!("http://x{path}").parse() {
            Ok(uri) => uri,
            Err(_) => return Ok(()),
        };
        let mut sent = Vec::new();
        for (name, value) in fields {
            let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(&value))
            else {
                continue;
            };
            if !["host", "te"].contains(&name.as_str()) {
                let trimmed = value.as_bytes().trim_ascii().to_vec();
                sent.push((name.as_str().to_owned(), trimmed));
                parts.headers.append(name, value);
            }
        }
        if let Ok(head) = request_head(&parts, true, &Limits::default()) {
            let mut found: Vec<_> =
                head.headers().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
            prop_assert_eq!(found.remove(0), ("host".to_owned(), b"x".to_vec()));
            found.sort();
            sent.sort();
            prop_assert_eq!(found, sent);
        }
    }
}
