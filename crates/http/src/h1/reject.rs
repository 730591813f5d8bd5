//! Reasons why a request is rejected, with their statuses.

use crate::h1::body::BodyError;
use crate::h1::framing::FramingFault;

/// A request that gets an error response, after which the connection is closed, because the bytes
/// that follow cannot be trusted. The text describes the error and names the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// 400: not a request of HTTP/1 (RFC 9112 §2.2, §3, §5).
    #[error("malformed request: {0}")]
    Malformed(&'static str),
    /// 400: the target has an invalid byte. It is not visible ASCII, or it starts a fragment, which
    /// is never sent (RFC 9112 §3.2).
    #[error("malformed request: the target contains the byte 0x{0:02x}, which is not allowed")]
    TargetByte(u8),
    /// 400, or 501 for an unknown coding: the length of the body cannot be trusted (RFC 9112 §6).
    #[error("request body without a reliable length: {0}")]
    Framing(FramingFault),
    /// 400: the body breaks the chunked coding (RFC 9112 §7.1).
    #[error("malformed request body: {0}")]
    Body(BodyError),
    /// 408: the head did not arrive in time.
    #[error("the head of the request took longer than {0} ms")]
    HeadTimeout(u64),
    /// 408: the body did not arrive in time.
    #[error("the body of the request took longer than {0} ms")]
    BodyTimeout(u64),
    /// 413: the declared or received body is longer than
    /// [`Limits::body_bytes`](crate::h1::Limits::body_bytes).
    #[error("request body longer than {0} bytes")]
    BodyTooLarge(usize),
    /// 414: the request line alone fills [`Limits::head_bytes`](crate::h1::Limits::head_bytes).
    #[error("request line longer than {0} bytes")]
    TargetTooLong(usize),
    /// 431: the head is longer than [`Limits::head_bytes`](crate::h1::Limits::head_bytes).
    #[error("request head longer than {0} bytes")]
    HeadTooLarge(usize),
    /// 431: there are more fields than [`Limits::headers`](crate::h1::Limits::headers).
    #[error("more than {0} header fields")]
    TooManyHeaders(usize),
    /// 501: the method is CONNECT.
    #[error("CONNECT is not supported")]
    Connect,
    /// 505: the major version is not 1.
    #[error("only HTTP/1.0 and HTTP/1.1 are supported")]
    Version,
}

impl Reject {
    /// Returns the status of the response.
    pub fn status(&self) -> u16 {
        match self {
            Reject::Malformed(_) | Reject::TargetByte(..) | Reject::Body(_) => 400,
            Reject::Framing(FramingFault::UnknownCoding) => 501,
            Reject::Framing(_) => 400,
            Reject::HeadTimeout(..) | Reject::BodyTimeout(..) => 408,
            Reject::BodyTooLarge(..) => 413,
            Reject::TargetTooLong(..) => 414,
            Reject::HeadTooLarge(..) | Reject::TooManyHeaders(..) => 431,
            Reject::Connect => 501,
            Reject::Version => 505,
        }
    }
}
