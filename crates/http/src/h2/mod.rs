//! HTTP/2 (RFC 9113): converts between the messages of the `h2` crate and our heads.
//!
//! A received head is rendered as the text of HTTP/1.1 and then parsed by the parser of HTTP/1.1.
//! Both versions therefore accept the same requests and responses, with the same limits, and no
//! message of HTTP/2 can become two messages of HTTP/1.1. Cost: a few thousand instructions per
//! head, a small part of what the frames cost.

pub mod server;
mod tunnel;

pub use tunnel::Tunnel;

use std::ops::Range;
use std::task::{Context, Poll, Waker, ready};

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::SendStream;
use h2::ext::Protocol;
use http::header::{
    CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue,
    InvalidHeaderValue, SEC_WEBSOCKET_KEY, TE,
};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{request, response};

use crate::h1::{
    BadResponse, Framing, HeaderLines, Limits, Reject, RequestHead, ResponseHead, WriteError,
    parse_request, parse_response,
};

use crate::h1::token::{is_token, put_field};

/// How the content types of gRPC begin.
const GRPC: &[u8] = b"application/grpc";

/// Fields that only HTTP/1.1 has (RFC 9113 §8.2.2). The `h2` crate rejects most of them.
const CONNECTION_SPECIFIC: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// Converts the head of a request. `ends` states whether the request has no body. An extended CONNECT
/// (RFC 8441) becomes the GET request that asks for the same protocol by `Upgrade`.
pub fn request_head(
    parts: &request::Parts,
    ends: bool,
    limits: &Limits,
) -> Result<RequestHead, Reject> {
    let protocol = parts.extensions.get::<Protocol>().map(Protocol::as_str);
    let method = match protocol {
        Some(protocol) if !is_token(protocol.as_bytes()) => {
            return Err(Reject::Malformed(":protocol is not a token"));
        }
        Some(_) => "GET",
        None if parts.method == http::Method::CONNECT => return Err(Reject::Connect),
        None => parts.method.as_str(),
    };
    let authority = authority(parts)?;
    let target = match parts.uri.path_and_query() {
        Some(target) => target.as_str(),
        // An OPTIONS request for the whole server (RFC 9113 §8.3.1).
        None if parts.method == http::Method::OPTIONS => "*",
        None => return Err(Reject::Malformed(":path is missing")),
    };
    let mut text = BytesMut::with_capacity(512);
    for part in [method, " ", target, " HTTP/1.1\r\n"] {
        text.put_slice(part.as_bytes());
    }
    put_field(&mut text, b"host", authority);
    if let Some(protocol) = protocol {
        put_field(&mut text, b"connection", b"upgrade");
        put_field(&mut text, b"upgrade", protocol.as_bytes());
    }
    put_fields(&mut text, &parts.headers).map_err(Reject::Malformed)?;
    let head = parse_request(&mut text, limits)?;
    // The text ends with the empty line, so the parser needs no more bytes. Bytes after that line
    // would be a second request.
    let mut head = head.filter(|_| text.is_empty()).ok_or(Reject::Malformed("the head"))?;
    // A tunnel is no body.
    let framing = framing(head.framing(), ends || protocol.is_some())
        .ok_or(Reject::Malformed("content-length"))?;
    head.set_http2(framing);
    Ok(head)
}

/// Converts the head of a response. `ends` states whether the response has no body.
pub fn response_head(
    parts: &response::Parts,
    to_head: bool,
    ends: bool,
    limits: &Limits,
) -> Result<ResponseHead, BadResponse> {
    let mut text = BytesMut::with_capacity(512);
    for part in ["HTTP/1.1 ", parts.status.as_str(), " \r\n"] {
        text.put_slice(part.as_bytes());
    }
    put_fields(&mut text, &parts.headers).map_err(BadResponse::Malformed)?;
    let head = parse_response(&mut text, limits, to_head)?;
    let mut head = head.filter(|_| text.is_empty()).ok_or(BadResponse::Malformed("the head"))?;
    if head.status() < 200 {
        // The crate `h2` skips interim responses. This version has no upgrades (RFC 9113 §8.6).
        return Err(BadResponse::Upgrade);
    }
    let declared = match head.framing() {
        Framing::UntilClose => Framing::Empty,
        declared => declared,
    };
    let bodiless = to_head || matches!(head.status(), 204 | 304);
    let framing = framing(declared, ends || bodiless);
    head.set_http2(framing.ok_or(BadResponse::Malformed("content-length"))?);
    Ok(head)
}

/// Checks a field. The length of the name rules out most fields before any comparison.
fn check_field(name: &str, value: &[u8]) -> Result<(), &'static str> {
    match name.len() {
        2 if name == "te" && !value.eq_ignore_ascii_case(b"trailers") => {
            Err("TE has another value than trailers")
        }
        7 | 10 | 16 | 17 if CONNECTION_SPECIFIC.contains(&name) => {
            Err("a field that is specific to a connection of HTTP/1.1")
        }
        _ => Ok(()),
    }
}

/// The value of `:authority`, or that of `Host` if there is no `:authority`. They must not
/// contradict each other (RFC 9113 §8.3.1).
fn authority(parts: &request::Parts) -> Result<&[u8], Reject> {
    let mut hosts = parts.headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
    match (parts.uri.authority(), hosts.next(), hosts.next()) {
        (_, _, Some(_)) => Err(Reject::Malformed("more than one Host")),
        (Some(authority), Some(host), None)
            if !authority.as_str().as_bytes().eq_ignore_ascii_case(host) =>
        {
            Err(Reject::Malformed("Host is not :authority"))
        }
        (Some(authority), ..) => Ok(authority.as_str().as_bytes()),
        (None, Some(host), None) => Ok(host),
        (None, None, None) => Err(Reject::Malformed("neither :authority nor Host")),
    }
}

/// Checks and appends the fields, without `Host`, and the empty line. The crumbs of a cookie become one
/// field (RFC 9113 §8.2.3).
fn put_fields(text: &mut BytesMut, headers: &HeaderMap) -> Result<(), &'static str> {
    let mut has_cookies = false;
    for (name, value) in headers {
        check_field(name.as_str(), value.as_bytes())?;
        match name {
            &HOST => {}
            &COOKIE => has_cookies = true,
            name => put_field(text, name.as_str().as_bytes(), value.as_bytes()),
        }
    }
    if has_cookies {
        let crumbs = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
        put_field(text, b"cookie", &crumbs.collect::<Vec<_>>().join(&b"; "[..]));
    }
    text.put_slice(b"\r\n");
    Ok(())
}

/// How the body is framed in HTTP/2. `None` if a length was declared for a body that does not exist.
fn framing(declared: Framing, ends: bool) -> Option<Framing> {
    match (declared, ends) {
        (Framing::Empty, true) => Some(Framing::Empty),
        (Framing::Length(_), true) => None,
        (Framing::Length(bytes), false) => Some(Framing::Length(bytes)),
        (_, false) => Some(Framing::Chunked),
        (_, true) => Some(Framing::Empty),
    }
}

/// Polls until up to `wanted` bytes can be sent on a stream. Returns `None` if the peer wants no
/// more. A waker that was registered for a reset of the stream is forgotten.
pub fn poll_room(
    stream: &mut SendStream<Bytes>,
    wanted: usize,
    context: &mut Context<'_>,
) -> Poll<Option<usize>> {
    // New capacity resumes the task that waits for a reset, and that is usually the one that asks for
    // the capacity: it would be polled once more for each piece.
    let _ = stream.poll_reset(&mut Context::from_waker(Waker::noop()));
    stream.reserve_capacity(wanted);
    loop {
        let room = stream.capacity();
        if room > 0 {
            return Poll::Ready(Some(room.min(wanted)));
        }
        // It reports only changes.
        match ready!(stream.poll_capacity(context)) {
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Poll::Ready(None),
        }
    }
}

/// The parts of a request that is sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The method.
    pub method: &'a str,
    /// The path and the query.
    pub target: &'a str,
    /// Whether the connection uses TLS.
    pub secure: bool,
    /// `name: value` lines, as [`write_lines`](crate::h1::write_lines) renders them. `Host` becomes
    /// `:authority`.
    pub lines: [&'a [u8]; 2],
    /// Length of the body, in bytes, if it is known.
    pub length: Option<u64>,
    /// The protocol of a tunnel, which is requested by an extended CONNECT.
    pub protocol: Option<&'a str>,
}

/// Converts the head of a request that is sent.
pub fn to_request(outgoing: &Outgoing<'_>) -> Result<http::Request<()>, WriteError> {
    let mut headers = HeaderMap::with_capacity(16);
    for lines in outgoing.lines {
        // The values share one buffer.
        let shared = Bytes::copy_from_slice(lines);
        let share = |_: &[u8], at| HeaderValue::from_maybe_shared(shared.slice(at));
        header_map(lines, &mut headers, share)?;
    }
    if let Some(length) = outgoing.length.filter(|&length| length > 0) {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    if headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(GRPC)) {
        // The gRPC specification requires it, and it was removed as a field of the connection.
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    let authority = headers.remove(HOST);
    let authority = authority.map(|host| Authority::try_from(host.as_bytes()));
    let mut uri = http::uri::Parts::default();
    uri.scheme = Some(if outgoing.secure { Scheme::HTTPS } else { Scheme::HTTP });
    uri.authority = authority.transpose().map_err(|_| WriteError::FieldValue)?;
    uri.path_and_query = Some(path_and_query(outgoing.target)?);
    let mut request = http::Request::new(());
    *request.method_mut() = match outgoing.protocol {
        Some(protocol) => {
            // Only HTTP/1.1 has it (RFC 8441 §5).
            headers.remove(SEC_WEBSOCKET_KEY);
            request.extensions_mut().insert(Protocol::from(protocol));
            http::Method::CONNECT
        }
        None => {
            http::Method::from_bytes(outgoing.method.as_bytes()).map_err(|_| WriteError::Method)?
        }
    };
    *request.uri_mut() = http::Uri::from_parts(uri).map_err(|_| WriteError::Target)?;
    *request.version_mut() = http::Version::HTTP_2;
    *request.headers_mut() = headers;
    Ok(request)
}

/// Parses a target. Percent-encodes bytes that the crate `http` does not accept, although clients of
/// HTTP/1.1 send them.
fn path_and_query(target: &str) -> Result<PathAndQuery, WriteError> {
    if let Ok(target) = PathAndQuery::try_from(target) {
        return Ok(target);
    }
    let mut encoded = String::with_capacity(target.len() + 16);
    for char in target.chars() {
        match char {
            '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}' => {
                encoded += &format!("%{:02X}", u32::from(char));
            }
            _ => encoded.push(char),
        }
    }
    PathAndQuery::try_from(encoded).map_err(|_| WriteError::Target)
}

/// Adds `name: value` lines to a map. `value` creates a value from the place of its bytes.
fn header_map(
    lines: &[u8],
    headers: &mut HeaderMap,
    value: impl Fn(&[u8], Range<usize>) -> Result<HeaderValue, InvalidHeaderValue>,
) -> Result<(), WriteError> {
    let mut start = 0;
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let colon = memchr::memchr(b':', line).ok_or(WriteError::FieldName)?;
        let name = HeaderName::from_bytes(&line[..colon]).map_err(|_| WriteError::FieldName)?;
        let rest = &line[colon + 1..];
        let (from, bytes) = (start + line.len() - rest.trim_ascii_start().len(), rest.trim_ascii());
        let value = value(bytes, from..from + bytes.len()).map_err(|_| WriteError::FieldValue)?;
        headers.append(name, value);
        start += line.len();
    }
    Ok(())
}

/// Converts the head of a response that is sent. `length` is the length of the body, if it is known.
fn to_response(
    status: u16,
    fields: impl HeaderLines,
    length: Option<u64>,
) -> Result<http::Response<()>, WriteError> {
    let mut response = http::Response::new(());
    *response.status_mut() =
        http::StatusCode::from_u16(status).map_err(|_| WriteError::Status(status))?;
    let mut lines = BytesMut::with_capacity(512);
    let skip = |name: &[u8]| {
        let is = |specific: &&str| name.eq_ignore_ascii_case(specific.as_bytes());
        is(&"content-length") || CONNECTION_SPECIFIC.iter().any(is)
    };
    fields.write_to(&mut lines, skip)?;
    let headers = response.headers_mut();
    // A connection to a client keeps some values to compress later heads. They must not keep whole
    // heads with them.
    header_map(&lines, headers, |value, _| HeaderValue::from_bytes(value))?;
    if let Some(length) = length.filter(|_| status != 204) {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    Ok(response)
}
