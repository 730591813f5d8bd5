//! Why a request has no response, and whether it may be sent again.

use curtail_http::h1::client::ClientError;

use crate::failure::Failure;

/// Why a request has no response.
#[derive(Debug)]
pub(super) enum SendError {
    /// The server has not processed the request and will not.
    Unsent,
    /// The connection ended before the response, so the server may have processed the request.
    Closed,
    Failed(Failure),
}

impl From<ClientError> for SendError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Unsent => Self::Unsent,
            ClientError::Closed => Self::Closed,
            error => Self::Failed(error.into()),
        }
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Unsent => Self::ConnectFailed(std::io::ErrorKind::NotConnected),
            SendError::Closed => Self::Reset,
            SendError::Failed(failure) => failure,
        }
    }
}
