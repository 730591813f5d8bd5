//! Why a request gets no complete response.

use curtail_http::h1::server::ServerError;

use crate::metrics::RequestOutcome;

/// The reason why a response did not reach the client, or not in full.
#[derive(Debug, thiserror::Error)]
pub(super) enum Cut {
    #[error(transparent)]
    Client(#[from] ServerError),
    #[error("the client left")]
    PeerClosed,
    #[error("the replica broke off its response")]
    Replica,
    #[error("the service's timeout expired during the response")]
    Timeout,
    #[error("a primary took the slot of this duplicate")]
    Preempted,
}

impl Cut {
    /// Returns the outcome of the request, which depends on who ended it.
    pub(super) fn outcome(&self) -> RequestOutcome {
        match self {
            Self::PeerClosed
            | Self::Client(
                ServerError::Io(_) | ServerError::WriteTimeout(..) | ServerError::IncompleteMessage,
            ) => RequestOutcome::Abandoned,
            Self::Replica | Self::Timeout | Self::Preempted | Self::Client(_) => {
                RequestOutcome::Cut
            }
        }
    }
}
