//! Tests sessions with server output in pieces of any size, and with malformed bytes. The tests in this
//! file cover UDP and the protocols whose responses arrive in order.

mod http;
mod tls;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use proptest::prelude::*;
use redis_protocol::resp2::encode::extend_encode;
use redis_protocol::resp2::types::BytesFrame;

use crate::plan::protocol::{Protocol, ResponseEnd};
use crate::session::tests::http::http1;
use crate::session::{
    Body, Out, Pipelined, Requests, Session, Sessions, TEXT_CHARS, Tcp, Token, printable,
};

pub(super) const LIMIT: u64 = 1_000;

pub(super) fn sessions(requests: Requests) -> Arc<Sessions> {
    Arc::new(Sessions {
        requests,
        heads: false,
        body_bytes_max: LIMIT,
        protocol: Protocol { pipeline: 3, ..Protocol::default() },
        datagrams_max: 1 << 16,
        begun: AtomicU64::new(0),
        tls: None,
    })
}

pub(super) fn one(request: &'static str) -> Vec<Bytes> {
    vec![Bytes::from_static(request.as_bytes())]
}

/// Returns the replies and the fault of a session that has these outstanding requests. The session
/// receives `input` in pieces of the given sizes, which are repeated, and then the end of the
/// connection.
pub(super) fn drive(
    mut session: Box<dyn Session>,
    tokens: &[Token],
    input: &[u8],
    sizes: &[usize],
) -> Vec<String> {
    for token in tokens {
        session.send(0, *token, &mut Out::default());
    }
    feed(&mut *session, input, sizes)
}

pub(super) fn feed(session: &mut dyn Session, mut input: &[u8], sizes: &[usize]) -> Vec<String> {
    let (mut buffer, mut out) = (BytesMut::new(), Out::default());
    let (mut sizes, mut fault) = (sizes.iter().cycle(), None);
    while !input.is_empty() && fault.is_none() {
        let size = sizes.next().map_or(input.len(), |size| (*size).clamp(1, input.len()));
        buffer.extend_from_slice(&input[..size]);
        input = &input[size..];
        fault = session.receive(&mut buffer, &mut out).err();
        assert!(buffer.len() <= size + (64 << 10), "the buffer is bounded");
    }
    let fault = fault.unwrap_or_else(|| session.end(&mut out));
    let mut results: Vec<String> = out.replies.iter().map(|reply| format!("{reply:?}")).collect();
    results.push(format!("{fault:?}"));
    results
}

/// Generates a sequence of `pieces` in any order, mixed with random bytes.
pub(super) fn nearly(pieces: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        20 => prop::sample::select(pieces).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

pub(super) fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![1]), prop::collection::vec(1..40usize, 1..6)]
}

fn memcached(request: &'static str) -> Box<dyn Session> {
    sessions(Requests::Memcached(one(request))).open()
}

fn redis() -> Box<dyn Session> {
    sessions(Requests::Redis(one("*1\r\n$4\r\nPING\r\n"))).open()
}

fn tcp(end: ResponseEnd) -> Box<dyn Session> {
    Box::new(Pipelined::new(sessions(Requests::Tcp(one("x"))), Tcp::new(end, Body::new(LIMIT))))
}

fn assert_says(session: Box<dyn Session>, input: &[u8], reply: Option<&str>, fault: &str) {
    let got = drive(session, &[7], input, &[]);
    let shown = String::from_utf8_lossy(input);
    match reply {
        Some(reply) => assert!(got.len() == 2 && got[0].contains(reply), "{shown:?}: {got:?}"),
        None => assert_eq!(got.len(), 1, "{shown:?}: {got:?}"),
    }
    assert!(got.last().unwrap().contains(fault), "{shown:?}: {got:?}");
}

#[test]
fn memcached_responses_are_good_unless_they_are_errors() {
    for (request, response, status) in [
        ("get a\r\n", "VALUE a 0 5\r\nab\r\nc\r\nEND\r\n", "body_bytes: 5"),
        ("gets a b\r\n", "VALUE a 0 0 17\r\n\r\nVALUE b 1 1 18\r\nx\r\nEND\r\n", "body_bytes: 1"),
        ("get a\r\n", "END\r\n", "Fine"),
        ("set a 0 0 1\r\nb\r\n", "STORED\r\n", "Fine"),
        ("add a 0 0 1\r\nb\r\n", "NOT_STORED\r\n", "Fine"),
        ("delete a\r\n", "NOT_FOUND\r\n", "Fine"),
        ("incr a 1\r\n", "17\r\n", "Fine"),
        ("version\r\n", "VERSION 1.6\r\n", "Fine"),
        ("get a\r\n", "SERVER_ERROR out of memory\r\n", "Refused(\"SERVER_ERROR out of memory\")"),
        ("set a 0 0 1\r\nb\r\n", "ERROR\r\n", "Refused(\"ERROR\")"),
    ] {
        assert_says(memcached(request), response.as_bytes(), Some(status), "Closed");
    }
}

#[test]
fn pipelined_responses_match_the_requests_in_order() {
    let input = b"VALUE a 0 3\r\nabc\r\nEND\r\nEND\r\nVALUE a 0 1\r\nx\r\nEND\r\n";
    for sizes in [&[][..], &[1], &[30, 2]] {
        let got = drive(memcached("get a\r\n"), &[7, 8, 9], input, sizes);
        let wanted = [
            ("token: 7", "body_bytes: 3"),
            ("token: 8", "body_bytes: 0"),
            ("token: 9", "body_bytes: 1"),
        ];
        for (got, (token, bytes)) in got.iter().zip(wanted) {
            assert!(got.contains(token) && got.contains(bytes), "{got}");
        }
        assert_eq!(got.len(), 4, "{got:?}");
    }
    let got = drive(memcached("get a\r\n"), &[7, 8], b"END\r\nVALUE", &[]);
    assert!(got.len() == 2 && got[1].contains("IncompleteMessage"), "{got:?}");
}

#[test]
fn malformed_memcached_responses_are_faults() {
    for (response, fault) in [
        ("HTTP/1.1 400 Bad Request\r\n", "is not a response of memcached"),
        ("VALUE a 0 x\r\n", "Malformed"),
        ("VALUE a 0 1\r\nbcEND\r\n", "CR LF"),
        ("VALUE a 0 1001\r\n", "TooLarge"),
        ("VALUE a 0 18446744073709551615\r\n", "TooLarge"),
        ("VALUE a 0 5\r\nab", "IncompleteMessage"),
        ("STORED\r\n", "Malformed"),
        ("END\n", "CR LF"),
    ] {
        assert_says(memcached("get a\r\n"), response.as_bytes(), None, fault);
    }
    assert_says(memcached("get a\r\n"), &[b'x'; 3000], None, "a line of more than 2048 bytes");
    assert_says(memcached("get a\r\n"), b"", None, "Closed");
    assert_says(memcached("get a\r\n"), b"END\r\nEND\r\n", Some("Fine"), "Surplus");
}

#[test]
fn redis_responses_are_good_unless_they_are_errors() {
    for (response, status) in [
        ("+PONG\r\n", "Fine"),
        (":-1\r\n", "Fine"),
        ("$-1\r\n", "Fine"),
        ("*-1\r\n", "Fine"),
        ("*0\r\n", "Fine"),
        ("$5\r\na\r\nbc\r\n", "Fine"),
        ("*3\r\n*2\r\n:1\r\n$0\r\n\r\n*0\r\n+x\r\n", "Fine"),
        ("*2\r\n-ERR inside\r\n:1\r\n", "Fine"),
        ("-ERR no such \x1b[1mthing\r\n", "Refused(\"ERR no such  [1mthing\")"),
    ] {
        assert_says(redis(), response.as_bytes(), Some(status), "Closed");
    }
}

#[test]
fn bytes_that_are_not_resp2_are_a_fault() {
    for (response, fault) in [
        ("HTTP/1.1 400\r\n", "is not RESP2"),
        ("$x\r\n", "is not RESP2"),
        ("$-2\r\n", "is not RESP2"),
        (":\r\n", "is not RESP2"),
        ("\r\n", "is not RESP2"),
        ("$1001\r\n", "TooLarge"),
        ("$9223372036854775807\r\n", "TooLarge"),
        ("$1\r\nabc\r\n", "CR LF"),
        ("*9223372036854775807\r\n", "TooLarge"),
        ("*999\r\n:1\r\n", "IncompleteMessage"),
        ("*1\r\n*999\r\n", "TooLarge"),
    ] {
        assert_says(redis(), response.as_bytes(), None, fault);
    }
    // The server cannot make the client allocate memory or overflow its stack.
    assert_says(redis(), "*1\r\n".repeat(100_000).as_bytes(), None, "is not RESP2");
    let endless = format!("*1000\r\n{}", ":1\r\n".repeat(100_000));
    assert_says(redis(), endless.as_bytes(), None, "TooLarge");
}

#[test]
fn text_from_a_peer_is_safe_to_print() {
    assert_eq!(printable("a\u{1b}[2Jb\n"), "a [2Jb ");
    assert_eq!(printable(&"x".repeat(1_000)).len(), TEXT_CHARS);
}

#[test]
fn the_plan_determines_the_end_of_a_raw_response() {
    let until = |end: &str| tcp(ResponseEnd::Until(end.as_bytes().to_vec()));
    assert_says(until("\n"), b"abc\n", Some("body_bytes: 4"), "Closed");
    assert_says(until("aab"), b"aaab", Some("body_bytes: 4"), "Closed");
    assert_says(until("ab"), b"ababab", Some("body_bytes: 2"), "Surplus");
    assert_says(until("\n"), b"abc", None, "IncompleteMessage");
    assert_says(until("\n"), &[b'x'; 2000], None, "TooLarge");
    assert_says(tcp(ResponseEnd::Bytes(3)), b"abc", Some("body_bytes: 3"), "Closed");
    assert_says(tcp(ResponseEnd::Bytes(3)), b"abcd", Some("body_bytes: 3"), "Surplus");
    assert_says(tcp(ResponseEnd::Bytes(3)), b"ab", None, "IncompleteMessage");
}

/// Adds the length prefix, as the socket does.
fn datagram(number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u32_le(8);
    bytes.put_u64(number);
    bytes
}

#[test]
fn responses_match_by_number_and_others_are_ignored() {
    let session = sessions(Requests::Udp(one(""))).open();
    let short = [1, 0, 0, 0, 7];
    let input = [&datagram(1)[..], &datagram(1), &short, &datagram(9), &datagram(0)].concat();
    let got = drive(session, &[5, 6], &input, &[]);
    assert_eq!(got.len(), 3, "{got:?}");
    assert!(got[0].contains("token: 6") && got[1].contains("token: 5"), "{got:?}");
}

#[test]
fn a_response_to_an_abandoned_request_is_ignored() {
    let mut session = sessions(Requests::Udp(one("filler"))).open();
    let mut out = Out::default();
    session.send(0, 3, &mut out);
    assert_eq!(
        (out.bytes.get_u32_le(), out.bytes.get_u64(), &out.bytes[..]),
        (14, 0, &b"filler"[..])
    );
    assert!(session.abandon(3, &mut out));
    session.send(0, 3, &mut out);
    session.receive(&mut BytesMut::from(&datagram(0)[..]), &mut out).unwrap();
    assert!(out.replies.is_empty());
    session.receive(&mut BytesMut::from(&datagram(1)[..]), &mut out).unwrap();
    assert_eq!(out.replies.len(), 1);
    assert_eq!(session.capacity(), 1 << 16);
}

#[test]
fn a_response_to_another_connection_is_ignored() {
    let sessions = sessions(Requests::Udp(one("")));
    let mut out = Out::default();
    let (mut first, mut second) = (sessions.open(), sessions.open());
    first.send(0, 1, &mut out);
    let mut response = out.bytes.split();
    second.send(0, 1, &mut out);
    let mut own = out.bytes.split();
    second.receive(&mut response, &mut out).unwrap();
    assert!(out.replies.is_empty(), "{out:?}");
    second.receive(&mut own, &mut out).unwrap();
    assert_eq!(out.replies.len(), 1);
}

const MEMCACHED: &[&str] = &[
    "VALUE a 0 3\r\nxyz\r\n",
    "VALUE ",
    "a 0 ",
    "3\r\n",
    "xyz",
    "\r\n",
    "END\r\n",
    "STORED\r\n",
    "17",
    "SERVER_ERROR ",
    "VALUE a 0 900\r\n",
];
const REDIS: &[&str] = &[
    "+OK\r\n",
    "-ERR x\r\n",
    ":1\r\n",
    "$3\r\nxyz\r\n",
    "$-1\r\n",
    "*2\r\n",
    "*",
    "$",
    "9",
    "\r\n",
];
const RAW: &[&str] = &["a", "b", "aab", "aa", "\n"];

const HTTP1: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 100 \r\n\r\n",
    "content-length: 3\r\n",
    "\r\n",
    "abc",
    "transfer-encoding: chunked\r\n",
    "3\r\nabc\r\n",
    "0\r\n\r\n",
    "H",
    "\x15",
    "\0",
];

const UDP: &[&str] =
    &["\x08\0\0\0\0\0\0\0\0\0\0\0", "\x08\0\0\0\0\0\0\0\0\0\0\x01", "\x01\0\0\0\x07"];

fn frame() -> impl Strategy<Value = BytesFrame> {
    let text = prop::collection::vec(prop::char::range('a', 'e'), 0..9);
    let word = |text: Vec<char>| text.into_iter().collect::<String>();
    let leaf = prop_oneof![
        text.clone().prop_map(move |text| BytesFrame::SimpleString(word(text).into())),
        text.prop_map(move |text| BytesFrame::Error(word(text).into())),
        any::<i64>().prop_map(BytesFrame::Integer),
        prop::collection::vec(any::<u8>(), 0..20)
            .prop_map(|bytes| BytesFrame::BulkString(bytes.into())),
        Just(BytesFrame::Null),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop::collection::vec(inner, 0..4).prop_map(BytesFrame::Array)
    })
}

type Case = (fn() -> Box<dyn Session>, Vec<u8>);

fn cases() -> impl Strategy<Value = Case> {
    let of = |make: fn() -> Box<dyn Session>, pieces| {
        let input =
            prop_oneof![5 => nearly(pieces), 1 => prop::collection::vec(any::<u8>(), 0..300)];
        input.prop_map(move |input| (make, input))
    };
    prop_oneof![
        of(|| memcached("get a\r\n"), MEMCACHED),
        of(|| memcached("delete a\r\n"), MEMCACHED),
        of(redis, REDIS),
        of(|| tcp(ResponseEnd::Until(b"aab".to_vec())), RAW),
        of(|| tcp(ResponseEnd::Bytes(9)), RAW),
        of(|| http1("GET / HTTP/1.1\r\n\r\n"), HTTP1),
        of(|| http1("HEAD / HTTP/1.1\r\n\r\n"), HTTP1),
        of(|| sessions(Requests::Udp(one("xyz"))).open(), UDP),
    ]
}

proptest! {
    #[test]
    fn the_verdict_does_not_depend_on_the_cuts((make, input) in cases(), sizes in cuts()) {
        prop_assert_eq!(drive(make(), &[7], &input, &[]), drive(make(), &[7], &input, &sizes));
    }

    #[test]
    fn a_value_encoded_by_another_library_is_one_response(frame in frame(), sizes in cuts()) {
        let mut encoded = BytesMut::new();
        extend_encode(&mut encoded, &frame, false).unwrap();
        let got = drive(redis(), &[7], &encoded, &sizes);
        prop_assert_eq!(got.len(), 2, "{:?}", &got);
        prop_assert!(got[1] == "Closed", "{:?}", &got);
        let refused = matches!(frame, BytesFrame::Error(_));
        prop_assert_eq!(got[0].contains("Refused"), refused, "{:?}", &got);
    }
}
