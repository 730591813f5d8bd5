//! What gRPC adds to HTTP/2: status codes, deadlines and push-back.
//!
//! Sources: the gRPC specification, *gRPC over HTTP2*; gRFC A6, *gRPC Retry Design*.

mod timeout;

use std::time::Duration;

use http::header::HeaderName;

pub use timeout::{format_timeout, parse_timeout, read_timeout, shorten_timeout};

/// The header with the remaining time of a call.
pub const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// The header with the number of earlier attempts at a call.
pub const PREVIOUS_ATTEMPTS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");
/// The field with the status code. It is in the trailers, or in the head of a response without a body.
pub const STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// The field with which a server asks for a pause before the next attempt. It is where the status is.
pub const PUSH_BACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The names of the status codes, by number.
pub const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Parses a status code.
#[must_use]
pub fn parse_status(value: &[u8]) -> Option<u16> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// When a call may be attempted again, according to its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushBack {
    /// Not before this time has passed.
    After(Duration),
    /// Never.
    Never,
}

/// Parses push-back. A value that is negative or not a number means *never* (gRFC A6, *Pushback*).
#[must_use]
pub fn parse_push_back(value: &[u8]) -> PushBack {
    let ms: Option<u32> = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    ms.map_or(PushBack::Never, |ms| PushBack::After(Duration::from_millis(ms.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_back_that_is_no_number_of_milliseconds_means_never() {
        let after = |ms| PushBack::After(Duration::from_millis(ms));
        assert_eq!(parse_push_back(b"0"), after(0));
        assert_eq!(parse_push_back(b"2000"), after(2_000));
        for never in ["-1", "", "1.5", "soon", " 5", "4294967296"] {
            assert_eq!(parse_push_back(never.as_bytes()), PushBack::Never, "{never:?}");
        }
    }
}
