//! Parses the head of a response.

use std::mem::MaybeUninit;
use std::ops::Deref;

use bytes::BytesMut;

use crate::h1::body::BodyError;
use crate::h1::fields::{Draft, Fields, Part};
use crate::h1::framing::{Framing, FramingFault, Version};
use crate::h1::limits::{HEADERS_MAX, Limits};
use crate::h1::lines::{self, StatusLine};
use crate::h1::scan::{ScanFault, head_end};

/// Why bytes are not a valid response. The connection can no longer be used, and the server that
/// sent them is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadResponse {
    /// The bytes do not begin with `HTTP/1.`.
    #[error("the response is not HTTP/1")]
    NotHttp,
    /// The bytes are not an HTTP/1 response (RFC 9112 §4, §5).
    #[error("malformed response: {0}")]
    Malformed(&'static str),
    /// The status code is outside of 100 to 599 (RFC 9110 §15).
    #[error("status code {0}")]
    Status(u16),
    /// The status is `101 Switching Protocols`, although this protocol was not requested.
    #[error("101 for a protocol that was not requested")]
    Upgrade,
    /// There are more interim responses (1xx) than a client reads.
    #[error("more than {0} interim responses")]
    TooManyInterim(usize),
    /// The head is longer than [`Limits::head_bytes`](crate::h1::Limits::head_bytes).
    #[error("the head of the response is longer than {0} bytes")]
    HeadTooLarge(usize),
    /// There are more fields than [`Limits::headers`](crate::h1::Limits::headers).
    #[error("more than {0} header fields in the response")]
    TooManyHeaders(usize),
    /// The length of the body cannot be trusted (RFC 9112 §6).
    #[error("response without a reliable length: {0}")]
    Framing(FramingFault),
    /// The body breaks the chunked coding (RFC 9112 §7.1).
    #[error("malformed body of the response: {0}")]
    Body(BodyError),
}

impl BadResponse {
    /// Returns whether the response was rejected only because it exceeds one of our limits. It may
    /// otherwise be valid.
    pub fn is_over_a_limit(&self) -> bool {
        use BodyError::{ExtensionsTooLong, LineTooLong, TrailersTooLong};
        match self {
            Self::HeadTooLarge(_) | Self::TooManyHeaders(_) | Self::TooManyInterim(_) => true,
            Self::Body(why) => {
                matches!(why, LineTooLong(_) | ExtensionsTooLong(_) | TrailersTooLong(_))
            }
            Self::NotHttp
            | Self::Malformed(_)
            | Self::Status(_)
            | Self::Upgrade
            | Self::Framing(_) => false,
        }
    }
}

/// The head of a response (RFC 9112 §4). It owns the bytes that it was parsed from, and cloning
/// shares them.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    fields: Fields,
    status: u16,
    reason: Part,
}

impl Deref for ResponseHead {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.fields
    }
}

impl ResponseHead {
    /// Returns the status code, from 100 to 599.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns whether this is an interim response (1xx), which comes before the final one.
    pub fn is_interim(&self) -> bool {
        self.status < 200
    }

    /// Returns the reason phrase as sent. It is often empty, and has no meaning (RFC 9112 §4).
    pub fn reason(&self) -> &[u8] {
        self.fields.slice(self.reason)
    }
}

impl ResponseHead {
    /// See [`Fields::set_http2`].
    pub(crate) fn set_http2(&mut self, framing: Framing) {
        self.fields.set_http2(framing);
    }
}

/// Takes the head of a response, including its empty line, from the start of `buf`. Returns `None`
/// if more bytes are needed. `to_head` states whether the request was a HEAD request. The response
/// to such a request has no body, regardless of its fields.
///
/// # Errors
///
/// Returns a [`BadResponse`] if the response is not valid. `buf` is then unchanged, and nothing
/// more can be parsed from it. Like a request, a response is rejected if two of its fields give a
/// length. A transfer coding that does not end in `chunked` is also rejected, although RFC 9112
/// §6.3 lets a recipient read such a body until the connection closes.
pub fn parse_response(
    buf: &mut BytesMut,
    limits: &Limits,
    to_head: bool,
) -> Result<Option<ResponseHead>, BadResponse> {
    let (limit, bound) = (limits.head_bound(), limits.headers_bound());
    if buf.is_empty() && limit > 0 {
        return Ok(None);
    }
    let (window, mut draft) = (&buf[..buf.len().min(limit)], Draft::new());
    let (line, end) = match lines::response(window, bound, &mut draft) {
        Some(parsed) => parsed,
        None => {
            draft = Draft::new();
            match parse_strictly(buf, limits, &mut draft)? {
                Some(parsed) => parsed,
                None => return Ok(None),
            }
        }
    };
    let StatusLine { version, status, reason } = line;
    if !(100..=599).contains(&status) {
        return Err(BadResponse::Status(status));
    }
    let declared = draft.digest.framing(version).map_err(BadResponse::Framing)?;
    let bodiless = to_head || status < 200 || status == 204 || status == 304;
    let framing = match declared {
        _ if bodiless => Framing::Empty,
        Some(Framing::Length(0)) => Framing::Empty,
        Some(framing) => framing,
        None => Framing::UntilClose,
    };
    let fields = draft.finish(buf.split_to(end).freeze(), version, framing);
    Ok(Some(ResponseHead { fields, status, reason }))
}

/// Parses any head, and names its fault if it has one. Returns its first line and its length.
pub(crate) fn parse_strictly(
    buf: &[u8],
    limits: &Limits,
    draft: &mut Draft,
) -> Result<Option<(StatusLine, usize)>, BadResponse> {
    const START: &[u8] = b"HTTP/1.";
    let (limit, bound) = (limits.head_bound(), limits.headers_bound());
    let seen = buf.len().min(START.len()).min(limit);
    if buf[..seen] != START[..seen] {
        return Err(BadResponse::NotHttp);
    }
    let end = match head_end(buf, limit) {
        Ok(Some(end)) => end,
        Ok(None) => return Ok(None),
        Err(ScanFault::Malformed(why)) => return Err(BadResponse::Malformed(why)),
        Err(ScanFault::TooLong { .. }) => return Err(BadResponse::HeadTooLarge(limit)),
    };
    let head = &buf[..end];
    let mut table = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    match config.parse_response_with_uninit_headers(&mut response, head, &mut table[..bound]) {
        Ok(httparse::Status::Complete(length)) if length == end => {}
        Ok(_) => return Err(BadResponse::Malformed("the head has bytes after its end")),
        Err(error) => return Err(explain(error, bound)),
    }
    draft.add_all(head, response.headers);
    let line = StatusLine {
        version: if response.version == Some(0) { Version::Http10 } else { Version::Http11 },
        status: response.code.unwrap_or_default(),
        reason: reason(head),
    };
    Ok(Some((line, end)))
}

/// Where the reason phrase is: after `HTTP/1.1 200 `, up to the end of the line.
fn reason(head: &[u8]) -> Part {
    const START: usize = 13;
    let end = memchr::memchr(b'\r', head).unwrap_or_default();
    if end > START { Part::new(START, end) } else { Part::default() }
}

/// Names what the parser found.
fn explain(error: httparse::Error, headers_limit: usize) -> BadResponse {
    use httparse::Error;
    match error {
        Error::TooManyHeaders => BadResponse::TooManyHeaders(headers_limit),
        Error::Version => BadResponse::Malformed("neither HTTP/1.0 nor HTTP/1.1"),
        Error::HeaderName => {
            BadResponse::Malformed("a field name is not a token followed by a colon")
        }
        Error::HeaderValue => BadResponse::Malformed("a control byte in a field value"),
        Error::Status | Error::NewLine | Error::Token => {
            BadResponse::Malformed("the status line is not a version and three digits")
        }
    }
}
