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
    use std::sync::LazyLock;

    use curtail_http::grpc;
    use curtail_kernel::OutcomeTable;

    static TABLE: LazyLock<OutcomeTable> = LazyLock::new(OutcomeTable::default);

    let Ok(response) = result else { return Outcome::Failed(Fault::Reset) };
    match response.headers().get(grpc::STATUS).map(|value| grpc::parse_status(value.as_bytes())) {
        Some(Some(code)) => TABLE.grpc(code),
        Some(None) => Outcome::Failed(Fault::Malformed),
        None => TABLE.status(response.status().as_u16()),
    }
}
