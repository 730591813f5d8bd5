//! A query and its result.

use std::num::NonZeroU64;

use curtail_kernel::{CopyId, FailReason, GroupId, Outcome, Role, ServerId, ShedReason};
use tokio::time::Instant;

use crate::failure::Failure;

/// A query for a cell.
#[derive(Clone, Debug)]
pub struct Query<R> {
    /// The request that is sent to a server.
    pub request: R,
    /// The group whose servers can respond.
    pub group: GroupId,
    /// Whether the query may run on two servers at the same time. Set this only for idempotent
    /// requests.
    pub may_duplicate: bool,
    /// Whether the query may be sent again after a failure.
    pub may_retry: bool,
    /// The client's deadline, if it is earlier than the cell's own timeout.
    pub deadline: Option<Instant>,
    /// The expected cost of its work, in any unit that all queries of the service share. `None` if
    /// it is unknown.
    pub cost_hint: Option<NonZeroU64>,
}

impl<R> Query<R> {
    /// Creates an idempotent query for the first group.
    pub fn new(request: R) -> Self {
        let (may_duplicate, may_retry) = (true, true);
        let (deadline, cost_hint) = (None, None);
        Self { request, group: GroupId(0), may_duplicate, may_retry, deadline, cost_hint }
    }

    /// Returns the same query for another group.
    pub fn to_group(mut self, group: GroupId) -> Self {
        self.group = group;
        self
    }
}

/// A response, with the history of its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryResponse<R> {
    /// The response of the server.
    pub response: R,
    /// The server that responded.
    pub server: ServerId,
    /// Whether the first copy or a second one won.
    pub role: Role,
    /// Time until the first copy started, in ns.
    pub queued_ns: u64,
    /// Time from the query's arrival until this response was accepted, including the wait, in ns.
    pub took_ns: u64,
    /// Time from the start of the winning copy until its response was accepted, in ns.
    pub ran_ns: u64,
    /// The number of copies that were started.
    pub copies: u32,
    /// The outcome of the winning copy, as far as its head shows it.
    pub outcome: Outcome,
    /// The copy that won.
    pub(crate) copy: CopyId,
}

/// A copy that ended without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedCopy {
    /// The server that it was sent to.
    pub server: ServerId,
    /// Why it failed.
    pub why: Failure,
}

/// The reason why a query has no good response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError<R> {
    /// The queue is full.
    #[error("too many queries are waiting for this shard")]
    QueueFull,
    /// A primary needed the slot of this duplicate.
    #[error("a duplicate gave way to a primary")]
    GaveWay,
    /// The query expired before a server could take it.
    #[error("the query expired before a replica was free")]
    Expired,
    /// The timeout passed while a server worked on the query, or the last server that it may be
    /// sent to did not respond in time.
    #[error("no replica responded in time")]
    Timeout,
    /// Every copy failed, and the query may not be sent again.
    #[error("{}", failed(.last.as_ref()))]
    Failed {
        /// The last response by which a server refused or failed.
        response: Option<Box<QueryResponse<R>>>,
        /// The last copy without a response.
        last: Option<FailedCopy>,
    },
}

/// In words that a client may read.
fn failed(last: Option<&FailedCopy>) -> String {
    last.map_or_else(|| "the replicas failed".to_owned(), |copy| copy.why.cause().to_string())
}

impl<R> QueryError<R> {
    pub(crate) fn from_shed(why: ShedReason) -> Self {
        match why {
            ShedReason::QueueFull => Self::QueueFull,
            ShedReason::Expired => Self::Expired,
        }
    }

    pub(crate) fn from_fail(
        why: FailReason,
        response: Option<Box<QueryResponse<R>>>,
        last: Option<FailedCopy>,
    ) -> Self {
        match why {
            FailReason::CopyFailed => Self::Failed { response, last },
            FailReason::Timeout => Self::Timeout,
        }
    }
}
