//! The reasons why a request or a sub-task is not served, the responses to rejected requests, and the
//! classification of responses as good or bad.
//!
//! Source: document 002 §5.2.5, *Admission control and drop policies*: control returns to the
//! service's code, which can then respond after doing only part of the work. RFC 9110 §15.6.4 and
//! §10.2.3; the gRPC wire protocol, *Trailers-Only*.
//!
//! Cost: three header fields per rejection.

use curtail_kernel::flow::Drop as Dropped;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};

/// The reason why a request or a sub-task was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It could not meet its deadline.
    Late,
    /// The queue is full.
    Full,
}

impl From<Dropped> for Reason {
    fn from(why: Dropped) -> Self {
        match why {
            Dropped::Late => Self::Late,
            Dropped::Full => Self::Full,
        }
    }
}

/// A rejection. The request or sub-task was not served, and rejecting it cost almost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", match .reason {
    Reason::Late => "it cannot meet its deadline",
    Reason::Full => "too many requests are waiting; try again later",
})]
pub struct Rejected {
    /// The reason.
    pub reason: Reason,
}

impl From<Reason> for Rejected {
    fn from(reason: Reason) -> Self {
        Self { reason }
    }
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// Statuses that are evidence about the server, not about the request: cancelled, unknown, deadline
/// exceeded, resource exhausted, internal, unavailable, data loss.
const GRPC_BAD: [u32; 7] = [1, 2, 4, 8, 13, 14, 15];

/// Whether a request is a gRPC request, according to its content type.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Returns the response to a request that is not served.
pub(crate) fn rejection<B: Default>(reason: Reason, is_grpc: bool) -> Response<B> {
    let mut response = Response::new(B::default());
    let headers = response.headers_mut();
    if is_grpc {
        let (status, message) = match reason {
            Reason::Late => ("4", "the deadline cannot be met"),
            Reason::Full => ("8", "too many requests are waiting"),
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(GRPC_STATUS, HeaderValue::from_static(status));
        headers.insert(GRPC_MESSAGE, HeaderValue::from_static(message));
    } else {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// Whether the response shows that the server has done its work. The status of a gRPC response with
/// a body is in its trailers. This function does not wait for the trailers.
pub(crate) fn is_good<B>(response: &Response<B>) -> bool {
    let code =
        response.headers().get(GRPC_STATUS).and_then(|code| code.to_str().ok()?.parse().ok());
    let status = response.status();
    !status.is_server_error()
        && status != StatusCode::TOO_MANY_REQUESTS
        && code.is_none_or(|code: u32| !GRPC_BAD.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejections_use_the_protocol_of_the_request_and_are_not_good() {
        let plain = rejection::<()>(Reason::Late, false);
        assert_eq!(plain.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(!is_good(&plain));
        for (reason, code) in [(Reason::Full, "8"), (Reason::Late, "4")] {
            let grpc: Response<()> = rejection(reason, true);
            assert_eq!(grpc.status(), StatusCode::OK);
            assert_eq!(grpc.headers()[GRPC_STATUS], code);
            assert!(!is_good(&grpc));
        }
        let mut found_none = Response::new(());
        assert!(is_good(&found_none));
        found_none.headers_mut().insert(GRPC_STATUS, HeaderValue::from_static("5"));
        assert!(is_good(&found_none), "NOT_FOUND is about the request");
    }
}
