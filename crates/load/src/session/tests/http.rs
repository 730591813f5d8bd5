//! Tests of HTTP/1.1 and HTTP/2.

use std::sync::Arc;

use bytes::BytesMut;
use proptest::prelude::*;

use crate::plan::Plan;
use crate::session::fault::Greeting;
use crate::session::tests::{cuts, drive, one, sessions};
use crate::session::{Out, Requests, Session, Token, requests};

pub(super) fn http1(request: &'static str) -> Box<dyn Session> {
    sessions(Requests::Http1(one(request))).open()
}

fn drive1(method: &str, input: &str) -> Vec<String> {
    let request =
        if method == "HEAD" { "HEAD / HTTP/1.1\r\n\r\n" } else { "GET / HTTP/1.1\r\n\r\n" };
    drive(http1(request), &[7], input.as_bytes(), &[])
}

fn http2(target: &str) -> Box<dyn Session> {
    let mut plan = Plan::new(target.parse().unwrap(), 1.0);
    plan.protocol.http2 = plan.target.scheme().is_http();
    sessions(requests::prepare(&plan).unwrap()).open()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn settings() -> Vec<u8> {
    frame(4, 0, 0, &[])
}

/// `:status: 200` from the static table (RFC 7541, appendix A).
const STATUS_200: &[u8] = &[0x88];
const END: u8 = 1;
const END_HEADERS: u8 = 4;

fn response(stream: u32) -> Vec<u8> {
    [
        frame(1, END_HEADERS, stream, STATUS_200),
        frame(0, 0, stream, b"abc"),
        frame(0, END, stream, b"de"),
    ]
    .concat()
}

fn header(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    let (name_length, value_length) = ([0, length(name)], [length(value)]);
    [&name_length[..], name.as_bytes(), &value_length[..], value.as_bytes()].concat()
}

/// Returns the result of a connection that has three outstanding requests. The replies are sorted
/// by token.
fn drive2(mut session: Box<dyn Session>, input: &[u8], sizes: &[usize]) -> Vec<String> {
    let mut out = Out::default();
    session.send(0, 0, &mut out);
    session.receive(&mut BytesMut::from(&settings()[..]), &mut out).unwrap();
    for token in 1..3 {
        session.send(0, token, &mut out);
    }
    let mut results = drive(session, &[], input, sizes);
    // The last entry is the fault of the connection.
    let replies = results.len() - 1;
    results[..replies].sort();
    results
}

#[test]
fn capacity_is_the_limit_of_the_server_and_of_the_plan() {
    for (allowed, streams) in [(3, 100), (100, 3)] {
        let mut plan = Plan::new("http://h".parse().unwrap(), 1.0);
        plan.protocol.http2 = true;
        let mut sessions = sessions(requests::prepare(&plan).unwrap());
        Arc::get_mut(&mut sessions).unwrap().protocol.streams = streams;
        let (mut session, mut out) = (sessions.open(), Out::default());
        assert_eq!(session.capacity(), 1, "until the server sends SETTINGS");
        let settings = frame(4, 0, 0, &[0, 3, 0, 0, 0, allowed]);
        session.send(0, 0, &mut out);
        session.receive(&mut BytesMut::from(&settings[..]), &mut out).unwrap();
        for token in 1..3 {
            assert_eq!(session.capacity(), 3 - token as usize);
            session.send(0, token, &mut out);
        }
        assert_eq!(session.capacity(), 0);
    }
}

#[test]
fn a_server_of_another_protocol_is_reported() {
    let (old, alert) = (&b"HTTP/1.1 200 \r\n\r\n"[..], &[21, 3, 3, 0, 2, 2, 40][..]);
    for (session, input, text) in [
        (http2("http://h"), old, "leave out --http2"),
        (http2("http://h"), b"SSH-2.0-Server\r\n", "does not use HTTP/2"),
        (http2("http://h"), alert, "write https:// instead of http://"),
        (http2("grpc://h:1/a.B/C"), old, "HTTP/2, which gRPC needs"),
        (http2("grpc://h:1/a.B/C"), alert, "write grpcs:// instead of grpc://"),
        (http1("GET / HTTP/1.1\r\n\r\n"), &settings(), "add --http2"),
        (http1("GET / HTTP/1.1\r\n\r\n"), alert, "write https:// instead of http://"),
    ] {
        let results = drive(session, &[7], input, &[]);
        assert!(results.len() == 1 && results[0].contains(text), "{results:?}");
    }
}

#[test]
fn http2_responses_arrive_in_any_order() {
    let input = [response(5), response(1), frame(6, 0, 0, &[0; 8]), response(3)].concat();
    let results = drive2(http2("http://h"), &input, &[]);
    assert_eq!(results.len(), 4, "{results:?}");
    for (token, results) in results[..3].iter().enumerate() {
        let reply = format!("token: {token}, result: Ok(Whole {{ status: Http(200)");
        assert!(results.contains(&reply) && results.contains("body_bytes: 5"), "{results}");
    }
    assert_eq!(results[3], "Closed");
}

#[test]
fn incomplete_messages_resets_and_goaways_are_distinguished() {
    let half = frame(1, END_HEADERS, 1, STATUS_200);
    let reset = frame(3, 0, 3, &[0, 0, 0, 7]);
    let away = frame(7, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]);
    let results = drive2(http2("http://h"), &[half, reset, away].concat(), &[]);
    assert!(results[0].contains("Err(IncompleteMessage)"), "{results:?}");
    assert!(results[1].contains("RST_STREAM, REFUSED_STREAM"), "{results:?}");
    assert!(results[2].contains("GOAWAY, NO_ERROR"), "{results:?}");
}

#[test]
fn a_response_that_is_too_long_ends_only_its_request() {
    let long = [frame(1, END_HEADERS, 1, STATUS_200), frame(0, 0, 1, &[b'x'; 1001])].concat();
    let results = drive2(http2("http://h"), &[long, response(3), response(5)].concat(), &[]);
    assert!(results[0].contains("TooLarge"), "{results:?}");
    assert!(results[1].contains("Ok(") && results[2].contains("Ok("), "{results:?}");
}

#[test]
fn an_announced_length_above_the_limit_fails_early() {
    let head = [STATUS_200, &header("content-length", "1001")].concat();
    let long = frame(1, END_HEADERS, 1, &head);
    let results = drive2(http2("http://h"), &[long, response(3), response(5)].concat(), &[]);
    assert!(results[0].contains("TooLarge"), "{results:?}");
    assert!(results[1].contains("Ok(") && results[2].contains("Ok("), "{results:?}");
    let mut plan = Plan::new("http://h".parse().unwrap(), 1.0);
    (plan.protocol.http2, plan.protocol.method) = (true, Some("HEAD".to_owned()));
    let to_head = || sessions(requests::prepare(&plan).unwrap()).open();
    let input = [frame(1, END_HEADERS, 1, &head), frame(0, END, 1, &[])].concat();
    let results = drive2(to_head(), &input, &[]);
    assert!(results[0].contains("Ok("), "{results:?}");
    for (head, fault) in [
        ("content-length: 1001\r\n\r\n", "TooLarge"),
        ("content-length: 1000\r\n\r\n", "IncompleteMessage"),
        ("transfer-encoding: chunked\r\n\r\n3e9\r\n", "TooLarge"),
        ("transfer-encoding: chunked\r\n\r\n3e8\r\n", "IncompleteMessage"),
        ("transfer-encoding: chunked\r\n\r\n1\r\na\r\n3e8\r\n", "TooLarge"),
    ] {
        let results = drive1("GET", &format!("HTTP/1.1 200 OK\r\n{head}"));
        assert!(results[0].contains(fault), "{head}: {results:?}");
    }
    let results = drive1("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n");
    assert!(results[0].contains("Ok("), "{results:?}");
}

#[test]
fn a_protocol_switch_is_final_and_not_good() {
    let results = drive1("GET", "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n");
    assert!(results[0].contains("Ok(Whole { status: Http(101)"), "{results:?}");
    let mut session = http1("GET / HTTP/1.1\r\n\r\n");
    let mut out = Out::default();
    session.send(0, 7, &mut out);
    let input = &b"HTTP/1.1 101 \r\n\r\n"[..];
    session.receive(&mut BytesMut::from(input), &mut out).unwrap();
    assert_eq!((out.replies.len(), session.reusable()), (1, false));
}

#[test]
fn an_abandoned_request_leaves_the_connection_usable() {
    let mut session = http2("http://h");
    let mut out = Out::default();
    session.send(0, 7, &mut out);
    session.receive(&mut BytesMut::from(&settings()[..]), &mut out).unwrap();
    out.bytes.clear();
    assert!(session.abandon(7, &mut out));
    assert_eq!(out.bytes, frame(3, 0, 1, &[0, 0, 0, 8]), "the stream is canceled");
    session.send(0, 7, &mut out);
    let late = [response(1), response(3)].concat();
    session.receive(&mut BytesMut::from(&late[..]), &mut out).unwrap();
    assert_eq!(out.replies.len(), 1);
    assert_eq!((session.capacity(), session.reusable()), (100, true));
}

#[test]
fn statuses_of_grpc_are_in_headers_or_trailers() {
    let call = |input: Vec<u8>| drive2(http2("grpc://h:1/a.B/C"), &input, &[]).remove(0);
    let head = |stream| frame(1, END_HEADERS, stream, STATUS_200);
    let trailers = |code| frame(1, END_HEADERS | END, 1, &header("grpc-status", code));
    let message = |bytes: &[u8]| frame(0, 0, 1, bytes);
    let fine = [head(1), message(&[0, 0, 0]), message(&[0, 1, 9]), trailers("0")].concat();
    assert!(call(fine).contains("Ok(Whole { status: Fine, head: None, body_bytes: 6"));
    let short = [head(1), message(&[0, 0, 0, 0, 2, 9]), trailers("0")].concat();
    assert!(call(short).contains("a message of 2 bytes, but 1 arrived"));
    let none = [head(1), trailers("0")].concat();
    assert!(call(none).contains("has no message"));
    // :status: 204
    let page = call(frame(1, END_HEADERS | END, 1, &[0x89]));
    assert!(page.contains("no grpc-status"), "{page}");
    let odd = [head(1), trailers("x")].concat();
    assert!(call(odd).contains("is not a number"));
    let only = [STATUS_200, &header("grpc-status", "5"), &header("grpc-message", "no%0Asuch")];
    let only = frame(1, END_HEADERS | END, 1, &only.concat());
    assert!(call(only).contains("Refused(\"5 NOT_FOUND: no such\")"));
}

#[test]
fn a_protocol_is_detected_by_its_first_bytes() {
    for (bytes, greeting) in [
        (&b""[..], Greeting::Unknown),
        (b"HTT", Greeting::Unknown),
        (b"HTTP/1.", Greeting::Http1),
        (b"HTTP/2", Greeting::Other),
        (&[0, 0, 18], Greeting::Unknown),
        (&[0, 0, 18, 4], Greeting::Http2),
        (&[0, 0, 18, 0], Greeting::Other),
        (&[21], Greeting::Unknown),
        (&[21, 3], Greeting::Tls),
        (&[21, 4], Greeting::Other),
        (b"SSH", Greeting::Other),
    ] {
        assert_eq!(Greeting::of(bytes), greeting, "{bytes:?}");
    }
}

/// Generates frames for three requests, some of them malformed.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        Just(STATUS_200.to_vec()),
        Just(header("grpc-status", "0")),
        prop::collection::vec(any::<u8>(), 0..12),
        Just(vec![0; 8]),
        Just(vec![0, 0, 0, 8]),
    ];
    let stream = prop::sample::select(vec![0_u32, 1, 3, 5, 7]);
    let odd = (0..11_u8, any::<u8>(), stream.clone(), payload)
        .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload));
    let flags = prop::sample::select(vec![END_HEADERS, END_HEADERS | END]);
    let one = prop_oneof![
        3 => prop::sample::select(vec![1_u32, 3, 5]).prop_map(response),
        3 => (stream.clone(), flags).prop_map(|(at, flags)| frame(1, flags, at, STATUS_200)),
        3 => (stream.clone(), 0..2_u8, 0..600_usize)
            .prop_map(|(at, flags, length)| frame(0, flags, at, &vec![b'x'; length])),
        1 => stream.prop_map(|at| frame(3, 0, at, &[0, 0, 0, 2])),
        1 => Just(frame(6, 0, 0, &[0; 8])),
        1 => Just(frame(7, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0])),
        1 => odd,
    ];
    prop::collection::vec(one, 0..10).prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn the_verdict_on_http2_does_not_depend_on_the_cuts(
        input in frames(), sizes in cuts(), grpc in any::<bool>(),
    ) {
        let target = if grpc { "grpc://h:1/a.B/C" } else { "http://h" };
        let of = |sizes: &[usize]| {
            let mut results = drive2(http2(target), &input, sizes);
            // Once every request has a reply, it does not matter how the connection closes.
            results.truncate(3);
            results
        };
        prop_assert_eq!(of(&[]), of(&sizes));
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        input in prop::collection::vec(any::<u8>(), 0..300), sizes in cuts(), greeted in any::<bool>(),
    ) {
        let start = if greeted { settings() } else { Vec::new() };
        let whole = [start, input].concat();
        let _ = drive(http2("http://h"), &[3], &whole, &sizes);
    }

    #[test]
    fn requests_may_start_and_end_at_any_time(
        steps in prop::collection::vec((0..4_u8, 0..4 as Token, frames()), 0..12),
    ) {
        // A request always gets at most one reply, and none after it was abandoned.
        let mut session = http2("http://h");
        let mut out = Out::default();
        let mut waiting = [false; 4];
        session.receive(&mut BytesMut::from(&settings()[..]), &mut out).unwrap();
        for (kind, token, input) in steps {
            let at = token as usize;
            if kind == 0 && waiting[at] {
                waiting[at] = false;
                if !session.abandon(token, &mut out) {
                    return Ok(());
                }
            } else if kind < 3 && !waiting[at] && session.capacity() > 0 {
                waiting[at] = true;
                session.send(0, token, &mut out);
            }
            let ended = session.receive(&mut BytesMut::from(&input[..]), &mut out);
            for reply in out.replies.drain(..) {
                prop_assert!(std::mem::take(&mut waiting[reply.token as usize]));
            }
            if ended.is_err() {
                return Ok(());
            }
        }
        let _ = session.end(&mut out);
        prop_assert_eq!(out.replies.len(), waiting.iter().filter(|waiting| **waiting).count());
    }
}
