//! Reads a well-formed head in one pass over its bytes.
//!
//! Nearly every head is well formed. For any other head, these functions return `None`, and
//! [`head_end`](crate::h1::scan::head_end) and httparse then find the fault and name it. The
//! functions accept no head that those two reject, and find the same parts in it. A property test
//! compares them.

use crate::h1::fields::{Draft, Found, Part};
use crate::h1::framing::Version;
use crate::h1::token::{text_length, token_length};

/// The first line of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestLine {
    pub(crate) method: Part,
    pub(crate) target: Part,
    pub(crate) version: Version,
}

/// The first line of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusLine {
    pub(crate) version: Version,
    pub(crate) status: u16,
    pub(crate) reason: Part,
}

/// Reads the head of a request with a target in origin-form. Adds its fields to `draft`, at most
/// `most` of them. Returns its first line and its length.
pub(crate) fn request(
    bytes: &[u8],
    most: usize,
    draft: &mut Draft,
) -> Option<(RequestLine, usize)> {
    let method = token_length(bytes);
    let target = method + 1;
    if bytes.get(method..=target)? != b" /" || method == 0 || bytes[..method] == *b"CONNECT" {
        return None;
    }
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    let end = target + bytes[target..].iter().position(|&byte| !is_plain(byte))?;
    let fields = end + b" HTTP/1.1\r\n".len();
    let version = match bytes.get(end..fields)? {
        b" HTTP/1.1\r\n" => Version::Http11,
        b" HTTP/1.0\r\n" => Version::Http10,
        _ => return None,
    };
    let line =
        RequestLine { method: Part::new(0, method), target: Part::new(target, end), version };
    Some((line, read_fields(bytes, fields, most, draft)?))
}

/// Reads the head of a response. Adds its fields to `draft`, at most `most` of them. Returns its
/// first line and its length.
pub(crate) fn response(
    bytes: &[u8],
    most: usize,
    draft: &mut Draft,
) -> Option<(StatusLine, usize)> {
    let version = match bytes.first_chunk()? {
        b"HTTP/1.1 " => Version::Http11,
        b"HTTP/1.0 " => Version::Http10,
        _ => return None,
    };
    let &[hundreds, tens, ones, b' ', ref rest @ ..] = &bytes[b"HTTP/1.1 ".len()..] else {
        return None;
    };
    let mut status = 0;
    for digit in [hundreds, tens, ones] {
        if !digit.is_ascii_digit() {
            return None;
        }
        status = status * 10 + u16::from(digit - b'0');
    }
    let reason = b"HTTP/1.1 200 ".len();
    let end = reason + text_length(rest);
    if !bytes[end..].starts_with(b"\r\n") {
        return None;
    }
    let line = StatusLine { version, status, reason: Part::new(reason, end) };
    Some((line, read_fields(bytes, end + 2, most, draft)?))
}

/// Reads the fields from `start` on, and the empty line after them. Returns where that line ends.
fn read_fields(bytes: &[u8], start: usize, most: usize, draft: &mut Draft) -> Option<usize> {
    let (mut line, mut count) = (start, 0);
    loop {
        let rest = bytes.get(line..)?;
        if rest.starts_with(b"\r\n") {
            return Some(line + 2);
        }
        let colon = token_length(rest);
        if colon == 0 || rest.get(colon) != Some(&b':') || count == most {
            return None;
        }
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let mut value = colon + 1;
        while rest.get(value).is_some_and(is_blank) {
            value += 1;
        }
        let end = value + text_length(&rest[value..]);
        if !rest[end..].starts_with(b"\r\n") {
            return None;
        }
        let mut value_end = end;
        while value_end > value && is_blank(&rest[value_end - 1]) {
            value_end -= 1;
        }
        let plain = value == colon + 2 && rest[colon + 1] == b' ' && value_end == end;
        let found = |start: usize, end: usize| Found {
            part: Part::new(line + start, line + end),
            bytes: &rest[start..end],
        };
        draft.add(found(0, colon), found(value, value_end), plain);
        (line, count) = (line + end + 2, count + 1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::h1::limits::Limits;

    const PIECES: &[&str] = &[
        "GET / HTTP/1.1\r\n",
        "GET /a?b HTTP/1.0\r\n",
        "CONNECT /a HTTP/1.1\r\n",
        "OPTIONS * HTTP/1.1\r\n",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 404 \tNot \u{e9}\r\n",
        "HTTP/1.1 099\r\n",
        "Host: a\r\n",
        "X-Empty:\r\n",
        "x: \t spaced out\tvalue of more than a word \t\r\n",
        "content-length: 5\r\n",
        "Connection: close, x\r\n",
        "transfer-encoding: chunked\r\n",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "\r",
        " ",
        "\t",
        ":",
        "#",
        "\u{7f}",
        "\u{1}",
    ];

    /// A head that is mostly well formed.
    fn head() -> impl Strategy<Value = Vec<u8>> {
        let starts = select(&PIECES[..7]);
        let fields = vec(select(&PIECES[7..13]), 0..5);
        let strays = vec((select(PIECES), any::<u16>()), 0..2);
        (starts, fields, strays).prop_map(|(start, fields, strays)| {
            let mut head = format!("{start}{}\r\n", fields.concat()).into_bytes();
            for (piece, at) in strays {
                let at = usize::from(at) % (head.len() + 1);
                head.splice(at..at, piece.bytes());
            }
            head
        })
    }

    proptest! {
        #[test]
        fn one_pass_accepts_and_reads_heads_like_two(head in head(), headers in 1..6_usize) {
            let limits = Limits { headers, ..Limits::default() };
            let mut ours = Draft::new();
            if let Some(read) = request(&head, headers, &mut ours) {
                let mut theirs = Draft::new();
                let strict = crate::h1::request::parse_strictly(&head, &limits, &mut theirs);
                prop_assert_eq!(strict, Ok(Some(read)));
                prop_assert_eq!(&ours.digest, &theirs.digest);
                prop_assert_eq!(ours.fields(&head), theirs.fields(&head));
            }
            let mut ours = Draft::new();
            if let Some((line, end)) = response(&head, headers, &mut ours) {
                let mut theirs = Draft::new();
                let strict = crate::h1::response::parse_strictly(&head, &limits, &mut theirs);
                let (strict, length) = strict.expect("valid").expect("complete");
                prop_assert_eq!((strict.version, strict.status), (line.version, line.status));
                prop_assert_eq!(strict.reason.slice(&head), line.reason.slice(&head));
                prop_assert_eq!(length, end);
                prop_assert_eq!(&ours.digest, &theirs.digest);
                prop_assert_eq!(ours.fields(&head), theirs.fields(&head));
            }
        }
    }

    #[test]
    fn one_pass_suffices_for_well_formed_heads() {
        for fields in ["", "host: a\r\n", "a:\r\nb:\t\r\nc: d e\t\r\n"] {
            let head = format!("GET /a?b HTTP/1.0\r\n{fields}\r\nrest");
            let (_, end) = request(head.as_bytes(), 3, &mut Draft::new()).expect("well formed");
            assert_eq!(&head[end..], "rest");
            for start in ["HTTP/1.1 200 OK", "HTTP/1.0 404 "] {
                let head = format!("{start}\r\n{fields}\r\nrest");
                let read = response(head.as_bytes(), 3, &mut Draft::new());
                assert_eq!(&head[read.expect("well formed").1..], "rest");
            }
        }
    }
}
