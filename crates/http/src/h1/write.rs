//! Renders heads and chunks into a buffer.
//!
//! The writers control the framing of a message. `Content-Length`, `Transfer-Encoding`,
//! `Connection` and `Keep-Alive` depend only on the arguments of the writers, and the caller's
//! fields with these names are skipped. A proxy can therefore pass on all the fields that it
//! received.

use bytes::{BufMut, BytesMut};

use crate::h1::header_lines::{HeaderLines, WriteError};
use crate::h1::token::{is_named, is_token, put_field};

/// An empty list of header fields, to be passed to the writers as `headers`.
pub const NO_HEADERS: [(&str, &str); 0] = [];

/// The end of a chunked body.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// How a head announces the length of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// There is no body, and no field announces one.
    None,
    /// `Content-Length` announces this many bytes.
    Known(u64),
    /// `Transfer-Encoding: chunked` announces the body.
    Chunked,
    /// No field announces the body, which lasts until the connection is closed. Responses only.
    UntilClose,
}

/// How a head announces whether the connection persists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// No field: the default of the version applies.
    Default,
    /// `Connection: close`.
    Close,
    /// `Connection: keep-alive`, which HTTP/1.0 clients require.
    KeepAlive,
    /// `Connection: upgrade`. The caller passes `Upgrade` among the headers.
    Upgrade,
}

/// Appends the head of an HTTP/1.1 request to `buf`. The caller passes `Host` among the headers.
///
/// `BodyLength::Known(0)` writes `Content-Length: 0` only for methods that usually have a body (RFC
/// 9110 §8.6). `Expect` is skipped like the framing fields, because the body follows immediately.
pub fn write_request(
    buf: &mut BytesMut,
    method: &str,
    target: &str,
    headers: impl HeaderLines,
    body: BodyLength,
    persistence: Persistence,
) -> Result<(), WriteError> {
    check_request_line(method, target)?;
    if body == BodyLength::UntilClose {
        return Err(WriteError::UntilClose);
    }
    let start = buf.len();
    put_request_line(buf, method, target);
    write_lines(buf, headers).inspect_err(|_| buf.truncate(start))?;
    write_end(buf, announced(method, body), persistence);
    Ok(())
}

/// Methods that usually have a body announce an empty one (RFC 9110 §8.6).
fn announced(method: &str, body: BodyLength) -> BodyLength {
    let is_usual = matches!(method, "POST" | "PUT" | "PATCH");
    if body == BodyLength::Known(0) && !is_usual { BodyLength::None } else { body }
}

fn put_request_line(buf: &mut BytesMut, method: &str, target: &str) {
    buf.extend_from_slice(method.as_bytes());
    buf.extend_from_slice(b" ");
    buf.extend_from_slice(target.as_bytes());
    buf.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Appends `name: value` lines to `buf`, without the fields that frame a message.
pub fn write_lines(buf: &mut BytesMut, headers: impl HeaderLines) -> Result<(), WriteError> {
    let skip = |name: &[u8]| is_owned(name) || is_named(name, b"expect");
    headers.write_to(buf, skip)
}

/// Checks the request line that [`write_request_of_lines`] writes.
pub fn check_request_line(method: &str, target: &str) -> Result<(), WriteError> {
    if !is_token(method.as_bytes()) {
        return Err(WriteError::Method);
    }
    if target.is_empty() || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(WriteError::Target);
    }
    Ok(())
}

/// Appends the head of a request whose body has this length, which is known or chunked.
/// [`check_request_line`] has accepted the method and the target, and [`write_lines`] has written the
/// lines.
pub fn write_request_of_lines(
    buf: &mut BytesMut,
    method: &str,
    target: &str,
    lines: [&[u8]; 2],
    length: BodyLength,
) {
    put_request_line(buf, method, target);
    buf.extend_from_slice(lines[0]);
    buf.extend_from_slice(lines[1]);
    write_end(buf, announced(method, length), Persistence::Default);
}

/// Appends the head of an HTTP/1.1 response to `buf`. Interim responses and responses with the
/// status 204 never announce a length (RFC 9112 §6.3), regardless of `body`.
pub fn write_response_head(
    buf: &mut BytesMut,
    status: u16,
    headers: impl HeaderLines,
    body: BodyLength,
    persistence: Persistence,
) -> Result<(), WriteError> {
    if !(100..=599).contains(&status) {
        return Err(WriteError::Status(status));
    }
    let start = buf.len();
    buf.extend_from_slice(b"HTTP/1.1 ");
    buf.extend_from_slice(&[status / 100, status / 10 % 10, status % 10].map(|n| b'0' + n as u8));
    buf.extend_from_slice(b" ");
    buf.extend_from_slice(reason_phrase(status).as_bytes());
    buf.extend_from_slice(b"\r\n");
    headers.write_to(buf, is_owned).inspect_err(|_| buf.truncate(start))?;
    let body = if status < 200 || status == 204 { BodyLength::None } else { body };
    write_end(buf, body, persistence);
    Ok(())
}

/// Appends `data` as one chunk. Appends nothing if `data` is empty, because an empty chunk would
/// end the body.
pub fn write_chunk(buf: &mut BytesMut, data: &[u8]) {
    if !data.is_empty() {
        write_chunk_line(buf, data.len());
        buf.put_slice(data);
        buf.put_slice(b"\r\n");
    }
}

/// Appends the line that opens a chunk of `size` bytes, which is not zero.
pub(crate) fn write_chunk_line(buf: &mut BytesMut, size: usize) {
    let digits = (usize::BITS - size.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        buf.put_u8(b"0123456789abcdef"[(size >> (digit * 4)) & 0xf]);
    }
    buf.put_slice(b"\r\n");
}

/// Fields that the writers alone may write.
#[inline]
fn is_owned(name: &[u8]) -> bool {
    match name.len() {
        10 => is_named(name, b"connection") || is_named(name, b"keep-alive"),
        14 => is_named(name, b"content-length"),
        17 => is_named(name, b"transfer-encoding"),
        _ => false,
    }
}

/// Appends what frames the message, and the empty line.
fn write_end(buf: &mut BytesMut, body: BodyLength, persistence: Persistence) {
    match body {
        BodyLength::None | BodyLength::UntilClose => {}
        BodyLength::Known(length) => {
            put_field(buf, b"content-length", itoa::Buffer::new().format(length).as_bytes());
        }
        BodyLength::Chunked => put_field(buf, b"transfer-encoding", b"chunked"),
    }
    match persistence {
        Persistence::Default => {}
        Persistence::Close => put_field(buf, b"connection", b"close"),
        Persistence::KeepAlive => put_field(buf, b"connection", b"keep-alive"),
        Persistence::Upgrade => put_field(buf, b"connection", b"upgrade"),
    }
    buf.extend_from_slice(b"\r\n");
}

/// Returns the reason phrase of a status code (RFC 9110 §15, RFC 5842, RFC 6585), or "Unknown".
/// Phrases have no meaning, so those from a peer are not relayed.
pub fn reason_phrase(status: u16) -> &'static str {
    let known = http::StatusCode::from_u16(status).ok();
    known.and_then(|status| status.canonical_reason()).unwrap_or("Unknown")
}
