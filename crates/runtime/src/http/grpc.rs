//! The status of gRPC (the gRPC specification, *gRPC over HTTP2*), and push-back by servers (gRFC A6).

use std::time::Duration;

use curtail_http::h1::{BadResponse, ResponseHead};
use curtail_kernel::{Outcome, grpc_outcome};
use http::HeaderMap;

use crate::failure::Failure;

const STATUS: &str = "grpc-status";
const PUSH_BACK: &str = "grpc-retry-pushback-ms";

/// Returns the status code in the head of a response that has no trailers.
pub(super) fn status(head: &ResponseHead) -> Option<u16> {
    code(head.header(STATUS)?)
}

/// Returns the outcome of a response that has ended.
pub(super) fn end(head: &ResponseHead, trailers: Option<&HeaderMap>) -> Result<Outcome, Failure> {
    let code = status(head).or_else(|| in_trailers(trailers));
    code.map(grpc_outcome).ok_or(MISSING)
}

/// Returns the outcome that the trailers contain.
pub(super) fn outcome(trailers: Option<&HeaderMap>) -> Result<Outcome, Failure> {
    in_trailers(trailers).map(grpc_outcome).ok_or(MISSING)
}

/// A response of gRPC without a status is incomplete.
const MISSING: Failure = Failure::BadResponse(BadResponse::Malformed("grpc-status is missing"));

fn in_trailers(trailers: Option<&HeaderMap>) -> Option<u16> {
    code(trailers?.get(STATUS)?.as_bytes())
}

fn code(value: &[u8]) -> Option<u16> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// How long the server wants no retry.
pub(super) fn push_back(trailers: Option<&HeaderMap>) -> Option<Duration> {
    let value = trailers?.get(PUSH_BACK)?.to_str().ok()?;
    value.parse().ok().map(Duration::from_millis)
}
