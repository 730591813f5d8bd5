//! Parses the head of a request, and rejects it if two recipients could read it differently.

use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::ops::Deref;

use bytes::{Buf, BytesMut};

use crate::h1::fields::{Draft, Fields, Part};
use crate::h1::framing::{Framing, Version, decimal};
use crate::h1::limits::{HEADERS_MAX, Limits};
use crate::h1::lines::{self, RequestLine};
use crate::h1::reject::Reject;
use crate::h1::scan::{ScanFault, head_end};
use crate::h1::token::{is_named, is_token, is_token_byte, list};

/// The number of colons in the longest IPv6 address.
const COLONS_MAX: usize = 8;

/// The head of a request (RFC 9112 §3, §5). It owns the bytes that it was parsed from, and cloning
/// shares them.
#[derive(Debug, Clone)]
pub struct RequestHead {
    fields: Fields,
    method: Part,
    target: Part,
    expects_continue: bool,
}

impl Deref for RequestHead {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.fields
    }
}

impl RequestHead {
    /// Returns the method as sent. Methods are case-sensitive (RFC 9110 §9.1).
    pub fn method(&self) -> &str {
        self.fields.text(self.method)
    }

    /// Returns whether the method is HEAD. The response to a HEAD has no body.
    pub fn is_head(&self) -> bool {
        self.fields.slice(self.method) == b"HEAD"
    }

    /// Returns the request target as sent (RFC 9112 §3.2): origin-form (`/a?b`), absolute-form
    /// (`http://host/a?b`) or `*`.
    pub fn target(&self) -> &str {
        self.fields.text(self.target)
    }

    /// Returns the path and query of the target, as sent to an origin server. The result is `/` if
    /// an absolute-form target has no path, and `*` for the target `*`.
    pub fn path_and_query(&self) -> &str {
        let target = self.target();
        match absolute(target) {
            // A query without a path cannot be written in origin-form without inventing the path;
            // the parser refuses it, so the rest is empty or begins with a slash.
            Some((_, "")) => "/",
            Some((_, rest)) => rest,
            None => target,
        }
    }

    /// Returns the host and port that the request is for. An absolute-form target takes precedence
    /// over `Host` (RFC 9112 §3.2.2). Only an HTTP/1.0 request can lack both.
    pub fn authority(&self) -> Option<&[u8]> {
        // Nearly all targets are of origin-form.
        let is_origin = self.fields.slice(self.target).starts_with(b"/");
        match if is_origin { None } else { absolute(self.target()) } {
            Some((authority, _)) => Some(authority.as_bytes()),
            None => self.header("host"),
        }
    }

    /// Returns the protocol to which the client wants to switch (RFC 9110 §7.8). Returns `None` for a
    /// list of protocols, and for a request with a body or in HTTP/1.0.
    pub fn upgrade(&self) -> Option<&str> {
        let fields = &self.fields;
        let has_body = fields.framing() != Framing::Empty;
        if !fields.connection_names() || has_body || fields.version() == Version::Http10 {
            return None;
        }
        let mut options = fields.values("connection").flat_map(list);
        let mut protocols = fields.values("upgrade");
        let (protocol, other) = (protocols.next()?, protocols.next());
        let lists = options.any(|option| is_named(option, b"upgrade"));
        let is_one = other.is_none() && protocol.split(|&byte| byte == b'/').all(is_token);
        std::str::from_utf8(protocol).ok().filter(|_| lists && is_one)
    }

    /// Returns whether the client waits for `100 Continue` before it sends the body (RFC 9110
    /// §10.1.1). This is never true for HTTP/1.0 or for a request without a body.
    pub fn expects_continue(&self) -> bool {
        self.expects_continue
    }
}

impl RequestHead {
    /// See [`Fields::set_http2`].
    pub(crate) fn set_http2(&mut self, framing: Framing) {
        self.fields.set_http2(framing);
        self.expects_continue = false;
    }
}

/// Takes the head of a request, including its empty line, from the start of `buf`. Returns `None`
/// if more bytes are needed. Drops empty lines before the head (RFC 9112 §2.2).
///
/// # Errors
///
/// Returns a [`Reject`] if the request is rejected. `buf` is then unchanged, and nothing more can
/// be parsed from it. The verdict does not depend on how the bytes were split into reads.
pub fn parse_request(buf: &mut BytesMut, limits: &Limits) -> Result<Option<RequestHead>, Reject> {
    while buf.starts_with(b"\r\n") {
        buf.advance(2);
    }
    if buf.is_empty() || buf[..] == b"\r"[..] {
        return Ok(None);
    }
    let (bound, mut draft) = (limits.headers_bound(), Draft::new());
    let window = &buf[..buf.len().min(limits.head_bound())];
    let (line, end) = match lines::request(window, bound, &mut draft) {
        Some(parsed) => parsed,
        None => {
            draft = Draft::new();
            match parse_strictly(buf, limits, &mut draft)? {
                Some(parsed) => parsed,
                None => return Ok(None),
            }
        }
    };
    let RequestLine { method, target, version } = line;
    let framing = check(&buf[..end], &line, &draft, limits)?;
    let expects_continue =
        draft.digest.expects_continue && version == Version::Http11 && framing != Framing::Empty;
    let fields = draft.finish(buf.split_to(end).freeze(), version, framing);
    Ok(Some(RequestHead { fields, method, target, expects_continue }))
}

/// Refuses what cannot become a request (a TLS hello, say) from its first byte that is wrong,
/// instead of waiting for the end of a head that will not come.
fn check_method_so_far(buf: &[u8]) -> Result<(), Reject> {
    match buf.iter().position(|&byte| !is_token_byte(byte)) {
        Some(end) if end == 0 || buf[end] != b' ' => {
            Err(Reject::Malformed("the method is not a token"))
        }
        _ => Ok(()),
    }
}

/// Parses any head, and names its fault if it has one. Returns its first line and its length.
pub(crate) fn parse_strictly(
    buf: &[u8],
    limits: &Limits,
    draft: &mut Draft,
) -> Result<Option<(RequestLine, usize)>, Reject> {
    let (limit, bound) = (limits.head_bound(), limits.headers_bound());
    check_method_so_far(&buf[..buf.len().min(limit)])?;
    let end = match head_end(buf, limit) {
        Ok(Some(end)) => end,
        Ok(None) => return Ok(None),
        Err(ScanFault::Malformed(why)) => return Err(Reject::Malformed(why)),
        Err(ScanFault::TooLong { first_line: true }) => {
            return Err(Reject::TargetTooLong(limit));
        }
        Err(ScanFault::TooLong { first_line: false }) => {
            return Err(Reject::HeadTooLarge(limit));
        }
    };
    let head = &*with_known_version(&buf[..end]);
    let mut table = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(head, &mut table[..bound]) {
        Ok(httparse::Status::Complete(length)) if length == end => {}
        Ok(_) => return Err(Reject::Malformed("the head has bytes after its end")),
        Err(error) => return Err(explain(error, head, bound)),
    }
    let method = request.method.unwrap_or_default();
    let target = request.path.unwrap_or_default();
    check_target(method, target)?;
    draft.add_all(head, request.headers);
    let line = RequestLine {
        method: Part::of(head, method.as_bytes()),
        target: Part::of(head, target.as_bytes()),
        version: if request.version == Some(0) { Version::Http10 } else { Version::Http11 },
    };
    Ok(Some((line, end)))
}

/// Returns the head with the version HTTP/1.1 if it has a higher minor version, which is read like the
/// highest known one (RFC 9110 §2.5).
fn with_known_version(head: &[u8]) -> Cow<'_, [u8]> {
    let end = memchr::memchr(b'\r', head).unwrap_or_default();
    let [.., b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] = head[..end] else {
        return Cow::Borrowed(head);
    };
    let mut known = head.to_vec();
    known[end - 1] = b'1';
    Cow::Owned(known)
}

/// Checks what the fields mean together. Returns how the body is framed.
fn check(
    head: &[u8],
    line: &RequestLine,
    draft: &Draft,
    limits: &Limits,
) -> Result<Framing, Reject> {
    let framing = draft.digest.framing(line.version).map_err(Reject::Framing)?;
    check_host(head, line, draft)?;
    match framing.unwrap_or(Framing::Empty) {
        Framing::Length(0) => Ok(Framing::Empty),
        Framing::Length(length)
            if usize::try_from(length).map_or(true, |length| length > limits.body_bytes) =>
        {
            Err(Reject::BodyTooLarge(limits.body_bytes))
        }
        framing => Ok(framing),
    }
}

/// Names what the parser found.
fn explain(error: httparse::Error, head: &[u8], headers_limit: usize) -> Reject {
    use httparse::Error;
    match error {
        Error::TooManyHeaders => Reject::TooManyHeaders(headers_limit),
        Error::Version if other_version(head) => Reject::Version,
        Error::Version => Reject::Malformed("the request line does not end in a version"),
        Error::HeaderName => Reject::Malformed("a field name is not a token followed by a colon"),
        Error::HeaderValue => Reject::Malformed("a control byte in a field value"),
        Error::NewLine => Reject::Malformed("bytes after the version"),
        Error::Token | Error::Status => match stray_byte(head) {
            Some(byte) => Reject::TargetByte(byte),
            None => Reject::Malformed("the request line is not three words"),
        },
    }
}

/// The first byte of the request line that stands in none of its words.
fn stray_byte(head: &[u8]) -> Option<u8> {
    let mut line = head.iter().take_while(|&&byte| byte != b'\r');
    line.find(|&&byte| byte != b' ' && !byte.is_ascii_graphic()).copied()
}

/// True if the request line ends in `HTTP/<digit>.<digit>`, or `HTTP/<digit>`: well formed, but not
/// a version that is spoken here.
fn other_version(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let word = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    match word.strip_prefix(b"HTTP/") {
        Some([major, b'.', minor]) => major.is_ascii_digit() && minor.is_ascii_digit(),
        Some([major]) => major.is_ascii_digit(),
        _ => false,
    }
}

/// The four forms of a target (RFC 9112 §3.2), visible ASCII throughout.
fn check_target(method: &str, target: &str) -> Result<(), Reject> {
    if method == "CONNECT" {
        return Err(Reject::Connect);
    }
    if !is_token(method.as_bytes()) {
        return Err(Reject::Malformed("the method is not a token"));
    }
    // A fragment is never sent; recipients differ in where they cut it off.
    if let Some(byte) = target.bytes().find(|&byte| !byte.is_ascii_graphic() || byte == b'#') {
        return Err(Reject::TargetByte(byte));
    }
    let sound = match absolute(target) {
        Some((authority, rest)) => is_authority(authority.as_bytes()) && !rest.starts_with('?'),
        None => target.starts_with('/') || (target == "*" && method == "OPTIONS"),
    };
    if sound { Ok(()) } else { Err(Reject::Malformed("the target has none of the valid forms")) }
}

/// The authority of an absolute-form target, and what follows it; `None` for the other forms.
fn absolute(target: &str) -> Option<(&str, &str)> {
    // Nearly all targets are of origin-form; a search for the scheme is not free.
    if target.starts_with('/') {
        return None;
    }
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    Some(rest.split_at(end))
}

/// Exactly one sound `Host` in HTTP/1.1, at most one in HTTP/1.0 (RFC 9112 §3.2). It may be empty
/// where the target names no authority either (RFC 9110 §7.2).
fn check_host(head: &[u8], line: &RequestLine, draft: &Draft) -> Result<(), Reject> {
    match (draft.digest.hosts, line.version) {
        (0, Version::Http10) => return Ok(()),
        (0, Version::Http11 | Version::Http2) => return Err(Reject::Malformed("no Host")),
        (1, _) => {}
        _ => return Err(Reject::Malformed("more than one Host")),
    }
    match draft.host(head) {
        [] if names_authority(line.target.slice(head)) => {
            Err(Reject::Malformed("Host is empty, but the target names a host"))
        }
        [] => Ok(()),
        value if is_authority(value) => Ok(()),
        _ => Err(Reject::Malformed("Host is not a host and port")),
    }
}

/// Returns whether a target is in absolute-form.
fn names_authority(target: &[u8]) -> bool {
    std::str::from_utf8(target).is_ok_and(|target| absolute(target).is_some())
}

/// True for a host and, after a colon, a port from 0 to 65535, which may be left out. No byte of it
/// could make two recipients find two hosts in `value`: a list, a path, user information. Every value
/// can also be sent as `:authority`. Not a full check of RFC 3986 §3.2: a name may be any, and what is
/// in brackets need not be an IPv6 address.
fn is_authority(value: &[u8]) -> bool {
    let (host, port) = match value {
        [b'[', rest @ ..] => match memchr::memchr(b']', rest) {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => return false,
        },
        _ => {
            let is_end = |&byte: &u8| !is_host_byte(byte);
            let end = value.iter().position(is_end).unwrap_or(value.len());
            value.split_at(end)
        }
    };
    !host.is_empty()
        && (value[0] != b'[' || is_literal(host))
        && match port {
            [] => true,
            [b':', digits @ ..] => is_port(digits),
            _ => false,
        }
}

/// True for what may be in brackets.
fn is_literal(host: &[u8]) -> bool {
    let colons = host.iter().filter(|&&byte| byte == b':').count();
    colons <= COLONS_MAX && host.iter().all(|&byte| is_host_byte(byte) || byte == b':')
}

fn is_host_byte(byte: u8) -> bool {
    /// The visible bytes but for some. Those of an HTTP/2 `:authority` (the crate `http`), and no
    /// percent-encoded bytes, which recipients may or may not decode.
    static TABLE: [bool; 256] = {
        const NEVER: &[u8] = b",/\\?#@\"<>{}[]:%^`|";
        let mut table = [false; 256];
        let mut byte = b'!';
        while byte <= b'~' {
            table[byte as usize] = true;
            byte += 1;
        }
        let mut at = 0;
        while at < NEVER.len() {
            table[NEVER[at] as usize] = false;
            at += 1;
        }
        table
    };
    TABLE[byte as usize]
}

/// No digits at all stand for the port of the scheme (RFC 3986 §3.2.3).
fn is_port(digits: &[u8]) -> bool {
    digits.is_empty() || decimal(digits).is_some_and(|port| port <= u64::from(u16::MAX))
}
