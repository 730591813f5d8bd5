//! Parses and writes the heads of responses, and writes the heads of requests.

use crate::common::{all_verdicts, cuts, head_limits, nearly};
use bytes::BytesMut;
use curtail_http::h1::{
    BadResponse, BodyLength, Framing, Limits, NO_HEADERS, Persistence, ResponseHead, Version,
    WriteError, parse_request, parse_response, write_request, write_response_head,
};
use proptest::prelude::*;

fn parse(text: &str, to_head: bool) -> Result<Option<ResponseHead>, BadResponse> {
    parse_response(&mut BytesMut::from(text), &Limits::default(), to_head)
}

fn accepted(text: &str) -> ResponseHead {
    parse(text, false).expect("a response").expect("complete")
}

#[test]
fn the_parts_of_a_head_are_as_sent() {
    let head = accepted("HTTP/1.1 404 Not  here\r\nContent-Length: 3\r\nX-A: b\r\n\r\n");
    assert_eq!((head.status(), head.reason()), (404, &b"Not  here"[..]));
    assert_eq!((head.version(), head.framing()), (Version::Http11, Framing::Length(3)));
    assert_eq!(head.header("x-a"), Some(&b"b"[..]));
    assert_eq!(head.headers().count(), 2);
    assert!(head.keep_alive() && !head.is_interim());
    assert_eq!(accepted("HTTP/1.1 200\r\n\r\n").reason(), b"");
    assert_eq!(accepted("HTTP/1.1 200 \r\n\r\n").reason(), b"");
    assert_eq!(accepted("HTTP/1.1 599 \r\n\r\n").status(), 599);
}

#[test]
fn framing_follows_request_status_and_fields() {
    let framing = |text: &str, to_head| parse(text, to_head).unwrap().unwrap().framing();
    let long = "Content-Length: 7\r\n\r\n";
    for (line, expected) in [
        ("HTTP/1.1 200 OK", Framing::Length(7)),
        ("HTTP/1.1 100 Continue", Framing::Empty),
        ("HTTP/1.1 204 No Content", Framing::Empty),
        ("HTTP/1.1 304 Not Modified", Framing::Empty),
    ] {
        assert_eq!(framing(&format!("{line}\r\n{long}"), false), expected);
    }
    assert_eq!(framing(&format!("HTTP/1.1 200 OK\r\n{long}"), true), Framing::Empty);
    assert_eq!(framing("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false), Framing::Empty);
    assert_eq!(
        framing("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false),
        Framing::Chunked
    );
    assert_eq!(framing("HTTP/1.1 200 OK\r\n\r\n", false), Framing::UntilClose);
}

#[test]
fn a_connection_that_ends_a_body_does_not_persist() {
    assert!(!accepted("HTTP/1.1 200 OK\r\n\r\n").keep_alive());
    assert!(parse("HTTP/1.1 200 OK\r\n\r\n", true).unwrap().unwrap().keep_alive());
    let sized = |line: &str| accepted(&format!("{line}\r\nContent-Length: 1\r\n\r\n")).keep_alive();
    assert!(sized("HTTP/1.1 200 OK"));
    assert!(!sized("HTTP/1.1 200 OK\r\nConnection: close"));
    assert!(!sized("HTTP/1.0 200 OK"));
    assert!(sized("HTTP/1.0 200 OK\r\nConnection: keep-alive"));
}

#[test]
fn noise_is_rejected_from_its_first_byte() {
    for text in ["S", "SSH-2.0-x\r\n", "HTTP/2", "\r\nHTTP/1.1 200 OK\r\n\r\n", "\0"] {
        assert_eq!(parse(text, false).unwrap_err(), BadResponse::NotHttp, "{text:?}");
    }
    for text in ["HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1\r\n\r\n"] {
        assert!(matches!(parse(text, false), Err(BadResponse::Malformed(_))), "{text:?}");
    }
    assert!(matches!(parse("HTTP/1.2 200 OK\r\n\r\n", false), Err(BadResponse::Malformed(_))));
    assert_eq!(parse("HTTP/1.1 600 x\r\n\r\n", false).unwrap_err(), BadResponse::Status(600));
    assert_eq!(parse("HTTP/1.1 099 x\r\n\r\n", false).unwrap_err(), BadResponse::Status(99));
}

#[test]
fn limits_are_named() {
    let limits = Limits { head_bytes: 20, headers: 1, ..Limits::default() };
    let parse = |text: &str| parse_response(&mut BytesMut::from(text), &limits, false);
    let refused = parse("HTTP/1.1 200 OK\r\nA: b\r\n\r\n").unwrap_err();
    assert_eq!(refused, BadResponse::HeadTooLarge(20));
    let limits = Limits { head_bytes: 99, ..limits };
    let mut buf = BytesMut::from("HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\n\r\n");
    let refused = parse_response(&mut buf, &limits, false).unwrap_err();
    assert_eq!(refused, BadResponse::TooManyHeaders(1));
}

#[test]
fn writers_own_the_framing() {
    let mut buf = BytesMut::new();
    let received = [
        ("Content-Length", "99"),
        ("TRANSFER-ENCODING", "chunked"),
        ("Connection", "close"),
        ("keep-alive", "3"),
        ("X", "y"),
    ];
    let (body, default) = (BodyLength::Known(12), Persistence::Default);
    write_response_head(&mut buf, 200, received, body, default).unwrap();
    assert_eq!(buf, "HTTP/1.1 200 OK\r\nX: y\r\ncontent-length: 12\r\n\r\n");

    buf.clear();
    let received = [("Host", "a"), ("Expect", "100-continue"), ("Content-Length", "1")];
    let close = Persistence::Close;
    write_request(&mut buf, "POST", "/p", received, BodyLength::Chunked, close).unwrap();
    assert_eq!(
        buf,
        "POST /p HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    );
}

#[test]
fn an_empty_body_is_announced_for_methods_that_usually_have_one() {
    let render = |method: &str| {
        let mut buf = BytesMut::new();
        let body = BodyLength::Known(0);
        write_request(&mut buf, method, "/", NO_HEADERS, body, Persistence::Default).unwrap();
        String::from_utf8(buf.to_vec()).unwrap()
    };
    assert_eq!(render("POST"), "POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(render("GET"), "GET / HTTP/1.1\r\n\r\n");
}

#[test]
fn statuses_without_a_body_announce_no_length() {
    for status in [100, 204] {
        let mut buf = BytesMut::new();
        let body = BodyLength::Known(5);
        write_response_head(&mut buf, status, NO_HEADERS, body, Persistence::Default).unwrap();
        assert!(!String::from_utf8_lossy(&buf).contains("length"), "{status}");
    }
}

#[test]
fn an_ambiguous_head_is_not_written() {
    let mut buf = BytesMut::from("kept");
    let none = BodyLength::None;
    let keep = Persistence::Default;
    for (name, value, fault) in [
        ("a", "b\r\nc: d", WriteError::FieldValue),
        ("a", "b\n", WriteError::FieldValue),
        ("a", "b\0", WriteError::FieldValue),
        ("a b", "c", WriteError::FieldName),
        ("a:", "c", WriteError::FieldName),
        ("a\r\n", "c", WriteError::FieldName),
        ("", "c", WriteError::FieldName),
    ] {
        let headers = [("fine", "too"), (name, value)];
        assert_eq!(write_response_head(&mut buf, 200, headers, none, keep), Err(fault));
        assert_eq!(write_request(&mut buf, "GET", "/", headers, none, keep), Err(fault));
    }
    for target in ["", "/ HTTP/1.1\r\n", "/a b", "/\u{fc}"] {
        let verdict = write_request(&mut buf, "GET", target, NO_HEADERS, none, keep);
        assert_eq!(verdict, Err(WriteError::Target));
    }
    let verdict = write_request(&mut buf, "GE T", "/", NO_HEADERS, none, keep);
    assert_eq!(verdict, Err(WriteError::Method));
    let until = BodyLength::UntilClose;
    let verdict = write_request(&mut buf, "GET", "/", NO_HEADERS, until, keep);
    assert_eq!(verdict, Err(WriteError::UntilClose));
    for status in [0, 99, 600, u16::MAX] {
        let verdict = write_response_head(&mut buf, status, NO_HEADERS, none, keep);
        assert_eq!(verdict, Err(WriteError::Status(status)));
    }
    assert_eq!(buf, "kept");
}

const STARTS: &[&str] = &["", "HTTP/1.1 200 OK\r\n", "HTTP/1.0 404\r\n"];

const PIECES: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 200\r\n",
    "HTTP/1.1 304 \r\n",
    "HTTP/1.1 ",
    "HTTP/1.",
    "99 x\r\n",
    "\r\n",
    "\r\n",
    "\r",
    "\n",
    " ",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "X: y\r\n",
];

fn text(alphabet: &'static str, length: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let letters: Vec<char> = alphabet.chars().collect();
    prop::collection::vec(prop::sample::select(letters), length)
        .prop_map(|letters| letters.into_iter().collect())
}

proptest! {
    #[test]
    fn the_verdict_does_not_depend_on_the_cuts(
        input in nearly(STARTS, PIECES), sizes in cuts(), limits in head_limits(),
    ) {
        let verdicts = |sizes| all_verdicts(&input, sizes, |buf| parse_response(buf, &limits, false));
        prop_assert_eq!(verdicts(&[]), verdicts(&sizes));
    }

    #[test]
    fn a_written_head_parses_back(
        target in text("abc/?=&%.~", 0..30),
        fields in prop::collection::vec((text("abcXYZ-_", 1..9), text("ab \t\u{fc}:;,\"", 0..20)), 0..9),
        length in prop_oneof![Just(BodyLength::None), Just(BodyLength::Chunked),
                              (1..1_000_000u64).prop_map(BodyLength::Known)],
    ) {
        let target = format!("/{target}");
        let expected = match length {
            BodyLength::Known(length) => Framing::Length(length),
            BodyLength::Chunked => Framing::Chunked,
            _ => Framing::Empty,
        };
        let trimmed = |fields: &[(String, String)]| -> Vec<(String, Vec<u8>)> {
            let trim = |value: &str| value.trim_matches([' ', '\t']).as_bytes().to_vec();
            fields.iter().map(|(name, value)| (name.clone(), trim(value))).collect()
        };
        let mut buf = BytesMut::new();
        let host = ("host".to_owned(), "h".to_owned());
        let sent: Vec<_> = fields.into_iter().chain([host]).collect();
        let given = || sent.iter().map(|(name, value)| (name, value));
        write_request(&mut buf, "POST", &target, given(), length, Persistence::Default).unwrap();
        let head = parse_request(&mut buf, &Limits::default()).unwrap().unwrap();
        prop_assert!(buf.is_empty());
        prop_assert_eq!(head.target(), target);
        prop_assert_eq!(head.framing(), expected);
        let own = |name: &str| name == "content-length" || name == "transfer-encoding";
        let got: Vec<_> = head.headers().filter(|(name, _)| !own(name))
            .map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
        prop_assert_eq!(got, trimmed(&sent));

        write_response_head(&mut buf, 200, given(), length, Persistence::Default).unwrap();
        let head = parse_response(&mut buf, &Limits::default(), false).unwrap().unwrap();
        let none = length == BodyLength::None;
        prop_assert_eq!(head.framing(), if none { Framing::UntilClose } else { expected });
    }
}
