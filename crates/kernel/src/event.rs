//! What the world tells a cell.

use core::num::NonZeroU64;

use crate::id::{CopyId, GroupId, QueryId, ServerId};
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// A query arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrive {
    /// Its name until it ends.
    pub query: QueryId,
    /// The group whose servers can answer it.
    pub group: GroupId,
    /// May it run on several servers at once? True for idempotent queries only.
    pub may_duplicate: bool,
    /// May it be sent again after a failure?
    pub may_retry: bool,
    /// The deadline; [`Timestamp::NEVER`] for none. The deadline from
    /// [`crate::Limits::timeout_ns`] applies as well.
    pub deadline: Timestamp,
    /// What its work is expected to cost, in any unit that all queries of the service share; none
    /// where it is unknown.
    pub cost_hint: Option<NonZeroU64>,
}

impl Arrive {
    /// An idempotent query without a deadline of its own and of unknown cost.
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

/// What a server says of itself on a response (document 002 §4.2.1), and a client believes within
/// reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Requests that waited or ran there when the response was sent, without it.
    pub queue: u32,
    /// How long it worked on the request, without its wait, in ns.
    pub service_ns: u64,
}

/// What a server answers to a probe ([`crate::Action::Probe`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// Who answers.
    pub server: ServerId,
    /// Requests that are there.
    pub in_flight: u32,
    /// What requests of late took there, when about as many were, in ns.
    pub latency_ns: u64,
}

/// One thing that happened.
// With a tag of its own: one hidden in a field of `Arrive` would have to be decoded every time.
#[allow(missing_docs, reason = "the fields say what they are")]
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
pub enum Event {
    /// A query arrives.
    Arrive(Arrive),
    /// A server began to execute a copy, rather than let it wait for its turn. Optional: a policy that
    /// wants it does without where the server cannot say.
    Started { copy: CopyId },
    /// The head of a copy's response arrived. The first one that [`Outcome::wins`] is the response of the query. The
    /// slot stays taken until [`Event::Finished`], and only that end shows whether the server is well.
    Responded {
        copy: CopyId,
        /// What the head is worth.
        outcome: Outcome,
    },
    /// A copy ended on its server: the slot is free. Implies `Responded` where that was not said.
    Finished { copy: CopyId, outcome: Outcome },
    /// A copy that was cancelled has stopped: the slot is free.
    Stopped { copy: CopyId },
    /// The client went away while it received this copy's response.
    Unwanted { copy: CopyId },
    /// A copy that was given up is still at work: its server sent something. It is not silent, so
    /// its cancel timeout starts anew.
    Progress { copy: CopyId },
    /// The client of a query went away.
    Abandoned { query: QueryId },
    /// A server can be used (again): a probe succeeded.
    ServerUp { server: ServerId },
    /// The probes of a server fail. It gets no new copies, unless no server of a group is up.
    ServerUnhealthy {
        server: ServerId,
        /// Does it accept connections? One that does not gets no copies in any case.
        listens: bool,
    },
    /// An operator takes a server out of service: it gets no new copies, those that run go on.
    ServerDraining { server: ServerId },
    /// A server is gone: its copies are lost, each with an [`crate::Action::Lose`].
    ServerDown { server: ServerId },
    /// Somebody knows when a copy will end: the simulator's oracle, or a server that says so.
    Forecast {
        copy: CopyId,
        /// When it ends unless it is stopped.
        ends: Timestamp,
    },
    /// What the server of a copy reports of itself on a good response, before [`Event::Responded`] or
    /// [`Event::Finished`]. Optional, and means nothing to most policies.
    Feedback { copy: CopyId, feedback: Feedback },
    /// A server has answered a probe. One that does not is no event.
    Probed(Probed),
    /// From now on a server may hold so many copies ([`crate::Core::set_limit`]).
    Limit { server: ServerId, limit: u32 },
    /// A server gets no new copies until a time ([`crate::Core::close_until`]).
    Close { server: ServerId, until: Timestamp },
    /// A server that refused work names the time after which it may take some again (`Retry-After`): it is closed for
    /// that long, up to [`crate::Limits::retry_after_max_ns`], unless no other server of a group would be left.
    RetryAfter { server: ServerId, ns: u64 },
    /// Time passed: whatever is due is done.
    Tick,
}
