//! Ready functions that judge responses, for [`Builder::classify`](crate::Builder::classify).

use curtail_kernel::{Fault, Outcome};

/// Every response is good, and every error is a failure of the server. For services whose responses
/// contain no failures.
pub fn any_response<T, E>(result: &Result<T, E>) -> Outcome {
    match result {
        Ok(_) => Outcome::Good,
        Err(_) => Outcome::Failed(Fault::Reset),
    }
}

/// Judges a response by its status, as the proxy does by default: 429 and 503 are refusals, other
/// statuses from 500 on are failures, and other statuses from 400 on are about the request. For
/// gRPC, the status of the call decides if it is in the head. See
/// [`OutcomeTable`](curtail_kernel::OutcomeTable).
#[cfg(feature = "http")]
pub fn http<B, E>(result: &Result<::http::Response<B>, E>) -> Outcome {
    let Ok(response) = result else { return Outcome::Failed(Fault::Reset) };
    call(response.headers()).unwrap_or_else(|| TABLE.status(response.status().as_u16()))
}

#[cfg(feature = "http")]
static TABLE: std::sync::LazyLock<curtail_kernel::OutcomeTable> =
    std::sync::LazyLock::new(curtail_kernel::OutcomeTable::default);

/// Returns the outcome of a call of gRPC, if these headers or trailers state it.
#[cfg(feature = "http")]
pub(crate) fn call(headers: &::http::HeaderMap) -> Option<Outcome> {
    use curtail_http::grpc::{STATUS, parse_status};

    let code = parse_status(headers.get(STATUS)?.as_bytes());
    Some(code.map_or(Outcome::Failed(Fault::Malformed), |code| TABLE.grpc(code)))
}
