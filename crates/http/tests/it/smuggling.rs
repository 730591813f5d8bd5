//! Requests and responses that two recipients could read as different messages are rejected.

use bytes::BytesMut;
use curtail_http::h1::{
    BadResponse, Framing, FramingFault, Limits, Reject, parse_request, parse_response,
};

/// Returns the verdict on a POST with these additional lines.
fn request(version: &str, lines: &[u8]) -> Result<Framing, Reject> {
    let mut buf = BytesMut::from(format!("POST / {version}\r\nHost: a\r\n").as_str());
    buf.extend_from_slice(lines);
    buf.extend_from_slice(b"\r\n");
    parse_request(&mut buf, &Limits::default()).map(|head| head.expect("complete").framing())
}

fn refused(lines: &[u8]) -> u16 {
    let verdict = request("HTTP/1.1", lines);
    verdict.expect_err(&String::from_utf8_lossy(lines)).status()
}

#[test]
fn two_lengths_are_refused_in_either_order() {
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "transfer-encoding: gzip\r\ncontent-length: 0\r\n",
        "Content-Length: bad\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let fault = request("HTTP/1.1", lines.as_bytes()).unwrap_err();
        assert_eq!((fault, fault.status()), (Reject::Framing(FramingFault::BothLengths), 400));
        assert_eq!(
            request("HTTP/1.0", lines.as_bytes()),
            Err(Reject::Framing(FramingFault::BothLengths))
        );
    }
}

#[test]
fn only_one_plain_content_length_is_taken() {
    assert_eq!(request("HTTP/1.1", b"Content-Length: 0005\r\n"), Ok(Framing::Length(5)));
    assert_eq!(request("HTTP/1.1", b"Content-Length:\t5 \r\n"), Ok(Framing::Length(5)));
    for value in [
        "+5",
        "-5",
        "5,5",
        "5, 5",
        "",
        "0x5",
        "5 5",
        "5;x",
        "5.0",
        "five",
        "18446744073709551616",
        "99999999999999999999999",
    ] {
        assert_eq!(refused(format!("Content-Length: {value}\r\n").as_bytes()), 400, "{value:?}");
    }
    assert_eq!(refused(b"Content-Length: 5\r\nContent-Length: 6\r\n"), 400);
    assert_eq!(refused(b"Content-Length: 5\r\ncontent-length: 5\r\n"), 400);
    assert_eq!(refused(b"Content-Length: \xb25\r\n"), 400);
}

#[test]
fn only_one_final_chunked_is_taken() {
    assert_eq!(request("HTTP/1.1", b"Transfer-Encoding: Chunked\r\n"), Ok(Framing::Chunked));
    for value in [
        "",
        ",chunked,",
        "chunked, chunked",
        "chunked, gzip",
        "xchunked",
        "chunked;q=1",
        "\"chunked\"",
        "identity",
        "gzip",
        "chunked\r\nTransfer-Encoding: chunked",
        "chunked\r\nTransfer-Encoding: identity",
    ] {
        assert_eq!(refused(format!("Transfer-Encoding: {value}\r\n").as_bytes()), 400, "{value:?}");
    }
    for value in ["gzip, chunked", ", chunked", "gzip\r\nTransfer-Encoding: chunked"] {
        assert_eq!(refused(format!("Transfer-Encoding: {value}\r\n").as_bytes()), 501, "{value:?}");
    }
    assert_eq!(refused(b"Transfer-Encoding: \x0bchunked\r\n"), 400);
    assert_eq!(refused(b"Transfer-Encoding: \xa0chunked\r\n"), 400);
}

#[test]
fn http10_has_no_transfer_coding() {
    assert_eq!(
        request("HTTP/1.0", b"Transfer-Encoding: chunked\r\n"),
        Err(Reject::Framing(FramingFault::CodingInHttp10))
    );
}

#[test]
fn lines_end_in_crlf_and_do_not_fold() {
    for lines in [
        "X: a\nContent-Length: 5\r\n",
        "X: a\rContent-Length: 5\r\n",
        "X: a\r\r\n",
        "X: a\r\n folded\r\n",
        "X: a\r\n\tfolded\r\n",
        "X:\r\n folded\r\n",
        " X: a\r\n",
        "X : a\r\n",
        "X\t: a\r\n",
        "Content-Length : 5\r\n",
        "X: a\0b\r\n",
        "X: a\x08b\r\n",
        "X: a\x7fb\r\n",
        "X\0: a\r\n",
    ] {
        assert_eq!(refused(lines.as_bytes()), 400, "{lines:?}");
    }
    let mut buf = BytesMut::from("GET / HTTP/1.1\nHost: a\n\n");
    assert_eq!(parse_request(&mut buf, &Limits::default()).unwrap_err().status(), 400);
}

#[test]
fn responses_follow_the_same_rules() {
    let verdict = |lines: &str| {
        let mut buf = BytesMut::from(format!("HTTP/1.1 200 OK\r\n{lines}\r\n").as_str());
        parse_response(&mut buf, &Limits::default(), false)
    };
    for (lines, fault) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", FramingFault::BothLengths),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", FramingFault::ManyLengths),
        ("Content-Length: 5, 5\r\n", FramingFault::BadLength),
        ("Transfer-Encoding: gzip, chunked\r\n", FramingFault::UnknownCoding),
        ("Transfer-Encoding: gzip\r\n", FramingFault::NotChunkedLast),
    ] {
        assert_eq!(verdict(lines).unwrap_err(), BadResponse::Framing(fault), "{lines:?}");
    }
    assert!(verdict("X: a\n").is_err());
    assert!(verdict("X: a\r\n b\r\n").is_err());
    assert!(verdict("X : a\r\n").is_err());
}
