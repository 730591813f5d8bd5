//! Tests where bodies end, and what makes them invalid. No input makes the decoder panic.

use crate::common::{cuts, feed, nearly};
use bytes::BytesMut;
use curtail_http::h1::{
    BodyDecoder, BodyError, Decoded, Framing, IncompleteBody, LAST_CHUNK, Limits, write_chunk,
};
use proptest::prelude::*;

/// The result of decoding an input.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    data: Vec<u8>,
    end: Option<Result<(), BodyError>>,
    legal_eof: bool,
}

fn run(framing: Framing, input: &[u8], sizes: &[usize], limits: &Limits) -> Outcome {
    let mut decoder = BodyDecoder::new(framing, limits);
    let mut outcome = Outcome::default();
    let steps = feed(input, sizes, |buf| match decoder.decode(buf) {
        Ok(Decoded::Data(data)) => {
            assert!(!data.is_empty());
            Some((Ok(data), false))
        }
        Ok(Decoded::NeedMore) => None,
        Ok(Decoded::End) => Some((Err(Ok(())), true)),
        Err(error) => Some((Err(Err(error)), true)),
    });
    for step in steps {
        match step {
            Ok(data) => outcome.data.extend_from_slice(&data),
            Err(end) => outcome.end = Some(end),
        }
    }
    outcome.legal_eof = decoder.eof().is_ok();
    outcome
}

fn chunked(input: &str) -> Outcome {
    run(Framing::Chunked, input.as_bytes(), &[], &Limits::default())
}

fn fault(input: &str) -> BodyError {
    chunked(input).end.expect("ended").expect_err("an error")
}

#[test]
fn a_length_ends_the_body_and_leaves_the_rest() {
    let mut decoder = BodyDecoder::new(Framing::Length(5), &Limits::default());
    let mut buf = BytesMut::from("hel");
    assert_eq!(decoder.decode(&mut buf), Ok(Decoded::Data("hel".into())));
    assert_eq!(decoder.decode(&mut buf), Ok(Decoded::NeedMore));
    assert_eq!(decoder.eof(), Err(IncompleteBody));
    buf.extend_from_slice(b"lo, next");
    assert_eq!(decoder.decode(&mut buf), Ok(Decoded::Data("lo".into())));
    assert!(decoder.is_done());
    assert_eq!(decoder.decode(&mut buf), Ok(Decoded::End));
    assert_eq!(buf, ", next");
}

#[test]
fn announced_bytes_that_have_not_arrived_are_counted() {
    let mut decoder = BodyDecoder::new(Framing::Chunked, &Limits::default());
    let mut buf = BytesMut::new();
    for (bytes, decoded, announced) in [
        ("ffffffffffffffff", Decoded::NeedMore, 0),
        ("\r\n", Decoded::NeedMore, u64::MAX),
        ("abc", Decoded::Data("abc".into()), u64::MAX - 3),
    ] {
        buf.extend_from_slice(bytes.as_bytes());
        assert_eq!(decoder.decode(&mut buf), Ok(decoded));
        assert_eq!(decoder.announced(), announced);
    }
    assert_eq!(BodyDecoder::new(Framing::Length(5), &Limits::default()).announced(), 5);
    assert_eq!(BodyDecoder::new(Framing::UntilClose, &Limits::default()).announced(), 0);
}

#[test]
fn an_empty_body_takes_no_bytes() {
    for framing in [Framing::Empty, Framing::Length(0)] {
        let mut buf = BytesMut::from("next");
        let mut decoder = BodyDecoder::new(framing, &Limits::default());
        assert_eq!(decoder.decode(&mut buf), Ok(Decoded::End));
        assert_eq!((decoder.eof(), &buf[..]), (Ok(()), &b"next"[..]));
    }
}

#[test]
fn until_close_ends_with_the_connection() {
    let outcome = run(Framing::UntilClose, b"all of it", &[2], &Limits::default());
    assert_eq!((&outcome.data[..], outcome.end), (&b"all of it"[..], None));
    assert!(outcome.legal_eof);
}

#[test]
fn chunks_extensions_and_trailers() {
    let outcome =
        chunked("5\r\nhello\r\n00A ; ext=\"x\";y\r\n, world!!!\r\n0;z\r\nX: y\r\nZ:\r\n\r\n");
    assert_eq!(String::from_utf8_lossy(&outcome.data), "hello, world!!!");
    assert_eq!(outcome.end, Some(Ok(())));
    let mut buf = BytesMut::from("0\r\n\r\nnext");
    let mut decoder = BodyDecoder::new(Framing::Chunked, &Limits::default());
    assert_eq!(decoder.decode(&mut buf), Ok(Decoded::End));
    assert_eq!(buf, "next");
}

#[test]
fn a_chunked_body_that_stops_early_is_incomplete() {
    let whole = "3\r\nabc\r\n0\r\nA: b\r\n\r\n";
    for end in 0..whole.len() {
        let outcome = chunked(&whole[..end]);
        assert_eq!((outcome.end, outcome.legal_eof), (None, false), "{end}");
    }
    assert!(chunked(whole).legal_eof);
}

#[test]
fn broken_chunks_are_refused() {
    for (input, expected) in [
        ("g", BodyError::Size),
        ("\r\n", BodyError::Size),
        ("-1\r\n", BodyError::Size),
        ("+1\r\n", BodyError::Size),
        (" 1\r\n", BodyError::Size),
        (";a\r\n", BodyError::Size),
        ("0x1\r\n", BodyError::Size),
        ("1 1\r\n", BodyError::Size),
        ("1 \r\na\r\n", BodyError::Extension),
        ("1;a\x01\r\n", BodyError::Extension),
        ("1;a=\"b\r\n", BodyError::Extension),
        ("1;a=\"b\\\"\r\n", BodyError::Extension),
        ("1\na", BodyError::LineBreak),
        ("1\ra", BodyError::LineBreak),
        ("1;a\nb\r\n", BodyError::LineBreak),
        ("1\r\nab", BodyError::LineBreak),
        ("1\r\na\n", BodyError::LineBreak),
        ("1\r\na\rx", BodyError::LineBreak),
        ("0\r\nA: b\n", BodyError::LineBreak),
        ("0\r\n\n", BodyError::LineBreak),
        ("0\r\nno colon\r\n", BodyError::Trailer),
        ("0\r\nA: b\r\n folded\r\n", BodyError::Trailer),
        ("0\r\nA : b\r\n", BodyError::Trailer),
        ("10000000000000000\r\n", BodyError::SizeOverflow),
        ("fffffffffffffffff\r\n", BodyError::SizeOverflow),
    ] {
        assert_eq!(fault(input), expected, "{input:?}");
    }
    assert_eq!(chunked("ffffffffffffffff\r\nabc").data, b"abc", "2^64 - 1 is a size");
}

#[test]
fn overhead_is_bounded() {
    let limits = Limits {
        chunk_line_bytes: 10,
        chunk_extension_bytes: 8,
        trailer_bytes: 12,
        ..Limits::default()
    };
    let run = |input: &str| run(Framing::Chunked, input.as_bytes(), &[], &limits);
    assert_eq!(run("0;345678\r\n\r\n").end, Some(Ok(())));
    assert_eq!(run("0;3456789\r\n").end, Some(Err(BodyError::LineTooLong(10))));
    assert_eq!(run("0000000000").end, Some(Err(BodyError::LineTooLong(10))));
    assert_eq!(
        run("1;123\r\na\r\n1;123\r\na\r\n0;\r\n\r\n").end,
        Some(Err(BodyError::ExtensionsTooLong(8)))
    );
    assert_eq!(run("0\r\nA: b\r\nC: d\r\n\r\n").end, Some(Ok(())));
    let too_long = Some(Err(BodyError::TrailersTooLong(12)));
    assert_eq!(run("0\r\nA: b\r\nC: d\r\nE: f\r\n\r\n").end, too_long);
    assert_eq!(run("0\r\nA: bbbbbbbbbbbbbbbbbbbb").end, too_long);
}

const STARTS: &[&str] = &["", "3\r\nabc\r\n", "0\r\nA: b\r\n"];

const PIECES: &[&str] = &[
    "1\r\na\r\n",
    "3\r\nabc\r\n",
    "5;ext\r\nhello\r\n",
    "a;x=y;z\r\n",
    "0\r\n",
    "\r\n",
    "\r",
    "\n",
    ";",
    "ff",
    "A: b\r\n",
    "fffffffffffffffff\r\n",
];

proptest! {
    #[test]
    fn the_verdict_does_not_depend_on_the_cuts(
        input in nearly(STARTS, PIECES),
        sizes in cuts(),
        small in any::<bool>(),
    ) {
        let tight = Limits {
            chunk_line_bytes: 9,
            chunk_extension_bytes: 12,
            trailer_bytes: 13,
            ..Limits::default()
        };
        let limits = if small { tight } else { Limits::default() };
        let once = run(Framing::Chunked, &input, &[], &limits);
        prop_assert_eq!(once, run(Framing::Chunked, &input, &sizes, &limits));
    }

    #[test]
    fn written_chunks_decode_to_the_same_bytes(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..500), 0..8),
        sizes in cuts(),
    ) {
        let mut buf = BytesMut::new();
        for chunk in &chunks {
            write_chunk(&mut buf, chunk);
        }
        buf.extend_from_slice(LAST_CHUNK);
        let outcome = run(Framing::Chunked, &buf, &sizes, &Limits::default());
        prop_assert_eq!(outcome.data, chunks.concat());
        prop_assert_eq!(outcome.end, Some(Ok(())));
    }
}
