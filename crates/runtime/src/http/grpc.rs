//! Calls of gRPC: what their status means, and the fields that differ between copies of a call.
//!
//! Sources: the gRPC specification, *gRPC over HTTP2*; gRFC A6, *gRPC Retry Design*.

use std::io::Write as _;

use curtail_http::grpc::{
    PREVIOUS_ATTEMPTS, PUSH_BACK, PushBack, STATUS, TIMEOUT, format_timeout, parse_push_back,
    parse_status,
};
use curtail_http::h1::{BadResponse, ResponseHead};
use curtail_kernel::{Outcome, OutcomeTable};
use http::{HeaderMap, HeaderName};
use tokio::time::Instant;

use crate::failure::Failure;

/// The parts of a call that every copy states anew. The request itself must not contain them.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The deadline of all attempts together. A copy gets the time that is left when it is sent.
    pub deadline: Instant,
    /// Number of attempts that the client made before.
    pub previous_attempts: u32,
}

impl Call {
    /// Appends the lines of a copy. `earlier` is the number of copies that were started before it.
    pub(super) fn write_lines(&self, earlier: u32, lines: &mut Vec<u8>) {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // Writing to memory does not fail.
        let _ = write!(lines, "{TIMEOUT}: {}\r\n", format_timeout(left));
        let previous = self.previous_attempts.saturating_add(earlier);
        if previous > 0 {
            let _ = write!(lines, "{PREVIOUS_ATTEMPTS}: {previous}\r\n");
        }
    }
}

/// Returns the status code in the head of a response that has no trailers.
pub(super) fn status(head: &ResponseHead) -> Option<u16> {
    parse_status(head.header(STATUS.as_str())?)
}

/// Returns the status code of a response that has ended. `status` is the code in its head, if there
/// is one.
pub(super) fn code(status: Option<u16>, trailers: Option<&HeaderMap>) -> Option<u16> {
    status.or_else(|| parse_status(field(trailers, &STATUS)?))
}

/// Returns the outcome of a response that has ended. A response of gRPC without a status is
/// incomplete.
pub(super) fn outcome(
    table: &OutcomeTable,
    status: Option<u16>,
    trailers: Option<&HeaderMap>,
) -> Result<Outcome, Failure> {
    let missing = Failure::BadResponse(BadResponse::Malformed("grpc-status is missing"));
    code(status, trailers).map(|code| table.grpc(code)).ok_or(missing)
}

/// Returns the push-back of a server.
pub(super) fn push_back(head: &ResponseHead, trailers: Option<&HeaderMap>) -> Option<PushBack> {
    let value = field(trailers, &PUSH_BACK).or_else(|| head.header(PUSH_BACK.as_str()));
    value.map(parse_push_back)
}

fn field<'t>(trailers: Option<&'t HeaderMap>, name: &HeaderName) -> Option<&'t [u8]> {
    Some(trailers?.get(name)?.as_bytes())
}
