//! A query, and what it ends with.

use std::num::NonZeroU64;

use curtail_kernel::{FailReason, GroupId, Role, ServerId, ShedReason};
use tokio::time::Instant;

use crate::failure::Failure;

/// A query to be answered.
#[derive(Clone, Debug)]
pub struct Query<R> {
    /// What is asked.
    pub request: R,
    /// Whose servers can respond.
    pub group: GroupId,
    /// May it run on two servers at once? For idempotent requests only.
    pub may_duplicate: bool,
    /// May it be sent again after a failure?
    pub may_retry: bool,
    /// When its client loses interest, if before the cell's own timeout.
    pub deadline: Option<Instant>,
    /// What its work is expected to cost, in any unit that all queries of the service share; none
    /// where it is not known.
    pub cost_hint: Option<NonZeroU64>,
}

impl<R> Query<R> {
    /// An idempotent query for the first group.
    pub fn new(request: R) -> Self {
        let (may_duplicate, may_retry) = (true, true);
        let (deadline, cost_hint) = (None, None);
        Self { request, group: GroupId(0), may_duplicate, may_retry, deadline, cost_hint }
    }

    /// The same query for a group.
    pub fn to_group(mut self, group: GroupId) -> Self {
        self.group = group;
        self
    }
}

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
    /// A duplicate whose slot a primary needed.
    #[error("a duplicate gave way to a primary")]
    GaveWay,
    /// Its time was up before a server could take it.
    #[error("the query expired before a replica was free")]
    Expired,
    /// Its time was up while a server worked on it, or the last server that it may be sent to kept
    /// silent for too long.
    #[error("no replica answered in time")]
    Timeout,
    /// Every copy failed, and it may not be sent again.
    #[error("{}", failed(.why.as_ref()))]
    Failed {
        /// The last response that came, by which a server refused or failed.
        response: Option<R>,
        /// Why the last copy without a response had none.
        why: Option<Failure>,
    },
    /// The cell is gone.
    #[error("the service is shutting down")]
    Closed,
}

/// In words that a client may read.
fn failed(why: Option<&Failure>) -> String {
    why.map_or_else(|| "the replicas failed".to_owned(), |why| why.cause().to_string())
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
        response: Option<R>,
        failure: Option<Failure>,
    ) -> Self {
        match why {
            FailReason::CopyFailed => Self::Failed { response, why: failure },
            FailReason::Timeout => Self::Timeout,
        }
    }
}
