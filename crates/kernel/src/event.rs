//! Events that a driver reports to a cell.

use core::num::NonZeroU64;

use crate::id::{CopyId, GroupId, QueryId, ServerId};
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// A query arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrive {
    /// The id of the query, until the query ends.
    pub query: QueryId,
    /// The group whose servers can serve the query.
    pub group: GroupId,
    /// Whether the query may run on several servers at the same time. Set this only for idempotent
    /// queries.
    pub may_duplicate: bool,
    /// Whether the query may be sent again after a failure.
    pub may_retry: bool,
    /// The deadline, or [`Timestamp::NEVER`]. The deadline that follows from
    /// [`crate::Limits::timeout_ns`] also applies.
    pub deadline: Timestamp,
    /// The expected cost of the query's work, in any unit that all queries of the service share.
    /// `None` if unknown.
    pub cost_hint: Option<NonZeroU64>,
}

impl Arrive {
    /// Creates an idempotent query that has an unknown cost and no deadline of its own.
    #[must_use]
    pub fn new(query: QueryId, group: GroupId) -> Self {
        Self {
            query,
            group,
            may_duplicate: true,
            may_retry: true,
            deadline: Timestamp::NEVER,
            cost_hint: None,
        }
    }
}

/// The load that a server reports about itself on a response (document 002 §4.2.1). Clients limit
/// it to plausible values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Requests that waited or ran on the server when it sent the response, excluding this one.
    pub queue: u32,
    /// How long the server worked on the request, without queueing, in ns.
    pub service_ns: u64,
}

/// A server's reply to a probe ([`crate::Action::Probe`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The server that was probed.
    pub server: ServerId,
    /// Requests that the server holds.
    pub in_flight: u32,
    /// Recent latency of the server while it held about this many requests, in ns.
    pub latency_ns: u64,
}

/// An event that a driver reports to a cell.
// The tag is explicit, because a tag that the compiler stores inside a field of `Arrive` would have
// to be decoded for every event.
#[allow(missing_docs, reason = "the names of the fields document them")]
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
pub enum Event {
    /// A query arrives.
    Arrive(Arrive),
    /// A server began to execute a copy that may have waited for its turn there. Optional: policies
    /// that use it also work with servers that do not report it.
    Started { copy: CopyId },
    /// The head of a copy's response arrived. The first head with [`Outcome::wins`] is the response
    /// of the query. The slot remains occupied until [`Event::Finished`], and only that event shows
    /// whether the server works correctly.
    Responded {
        copy: CopyId,
        /// The outcome, as far as it can be known from the head.
        outcome: Outcome,
    },
    /// A copy ended on its server, and its slot is free. It implies `Responded` if that event was
    /// not reported.
    Finished { copy: CopyId, outcome: Outcome },
    /// A cancelled copy has stopped, and its slot is free.
    Stopped { copy: CopyId },
    /// The client disconnected while it received this copy's response.
    Unwanted { copy: CopyId },
    /// A copy was given up, but its server has sent data, so the copy is still running. Restarts
    /// the copy's cancel timeout, unless the server was ordered to stop it.
    Progress { copy: CopyId },
    /// The client of a query disconnected.
    Abandoned { query: QueryId },
    /// A probe of a server succeeded, so the server can be used.
    ServerUp { server: ServerId },
    /// The probes of a server are failing. It gets no new copies as long as each of its groups has
    /// a server that is up.
    ServerUnhealthy {
        server: ServerId,
        /// Whether it accepts connections. If it does not, the server gets no copies at all.
        listens: bool,
    },
    /// An operator takes a server out of service: it gets no new copies, but its running copies
    /// continue.
    ServerDraining { server: ServerId },
    /// A server is gone. All its copies are lost, and the cell returns an [`crate::Action::Lose`]
    /// for each.
    ServerDown { server: ServerId },
    /// A server is no longer a member of the cell: it gets no new copies and counts in no fraction of
    /// its groups. Its running copies continue, and it must not be forgotten until they have ended.
    ServerLeft { server: ServerId },
    /// A new server takes the place of one that has left. It is up, and has a clean record. Ignored
    /// unless the place is absent and holds no copies. If it succeeds, the cell returns an
    /// [`crate::Action::Restore`].
    ServerJoined { server: ServerId },
    /// A forecast of when a copy will end, from the simulator's oracle or from a server that
    /// reports one.
    Forecast {
        copy: CopyId,
        /// The time at which the copy ends unless it is stopped.
        ends: Timestamp,
    },
    /// The load that a server reports on a good response, before [`Event::Responded`] or
    /// [`Event::Finished`]. This event is optional, and most policies ignore it.
    Feedback { copy: CopyId, feedback: Feedback },
    /// The size of a copy's response in bytes, without the head, before [`Event::Finished`]. This event
    /// is optional, and the driver may omit it if the policy does not need it ([`crate::Needs::bytes`]).
    Received { copy: CopyId, bytes: u64 },
    /// A server replied to a probe. No event is reported for a probe without a reply.
    Probed(Probed),
    /// Changes the number of copies that a server may hold. The number is clamped to the range from 1
    /// to [`crate::Topology::MAX_GATE`].
    Limit { server: ServerId, limit: u32 },
    /// Closes a server to new copies, even to duplicates, until the given time, which replaces any
    /// earlier one. If the time is in the past, the server opens.
    Close { server: ServerId, until: Timestamp },
    /// A server that refused work asks for a pause (`Retry-After`). It is closed for that time, but
    /// at most [`crate::Limits::retry_after_max_ns`], and only if each of its groups has another
    /// server that takes copies.
    RetryAfter { server: ServerId, ns: u64 },
    /// The server of this copy asks that the query is not sent again (gRFC A6, *Pushback*). The query
    /// gets no retry and no further copy, and copies that already run continue. Comes before
    /// [`Event::Responded`] or [`Event::Finished`].
    ForbidRetry { copy: CopyId },
    /// Time has passed: every timer that is due fires.
    Tick,
}
