//! What a query ends with.

use curtail_kernel::{FailReason, Role, ServerId, ShedReason};

/// A response, and how it came about.
#[derive(Clone, Debug)]
pub struct QueryResponse<R> {
    /// What the server said.
    pub response: R,
    /// Which server.
    pub server: ServerId,
    /// Was it the first copy or a second one that won?
    pub role: Role,
    /// How long the query waited for its first copy, in ns.
    pub queued_ns: u64,
    /// How long the query took until this response counted, waiting included, in ns.
    pub took_ns: u64,
    /// How long the copy that won had run by then, in ns.
    pub ran_ns: u64,
    /// How many copies were started.
    pub copies: u32,
}

/// A query that ended without a good response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError<R> {
    /// The waiting queue is full.
    #[error("too many queries wait for this shard")]
    QueueFull,
    /// Its time was up before a server could take it.
    #[error("the query expired before a replica was free")]
    Expired,
    /// Its time was up while a server worked on it, or the last server that it may be sent to kept
    /// silent for too long.
    #[error("no replica answered in time")]
    Timeout,
    /// Every copy failed, and it may not be sent again.
    #[error("the replicas failed")]
    Failed {
        /// What the last server said that answered, though it was that it failed.
        response: Option<R>,
    },
    /// The cell is gone.
    #[error("the service is shutting down")]
    Closed,
}

impl<R> QueryError<R> {
    pub(crate) fn from_shed(why: ShedReason) -> Self {
        match why {
            ShedReason::QueueFull => Self::QueueFull,
            ShedReason::Expired => Self::Expired,
        }
    }

    pub(crate) fn from_fail(why: FailReason, response: Option<R>) -> Self {
        match why {
            FailReason::CopyFailed => Self::Failed { response },
            FailReason::Timeout => Self::Timeout,
        }
    }
}
