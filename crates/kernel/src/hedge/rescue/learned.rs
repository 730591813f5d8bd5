//! What cells record for `rescue`, and what its service concludes from that.

use crate::time::NEVER_NS;

/// The state of the learner of `rescue`, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Status {
    /// The version of rescue that it is for.
    pub version: &'static str,
    /// T in ns, if rescues are known to pay off. In the first minute, queries are rescued before
    /// that is known.
    pub threshold_ns: Option<u64>,
    /// Rescues that won.
    pub won: u64,
    /// The number of rescues that did not win.
    pub lost: u64,
    /// Explorations that won.
    pub explored_won: u64,
    /// The number of explorations that did not win.
    pub explored_lost: u64,
    /// The number of times that rescues were found not to pay off, and the policy fell back to
    /// per-shard queuing.
    pub fallbacks: u64,
    /// The share of queries that are stuck at the age T, as far as it is known.
    pub stuck: f32,
}

/// The end of a query, or of a copy that was allowed to run on. Times are relative to the expected
/// cost if queries have cost hints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Record {
    /// The first copy won. This is also recorded if a second copy won, but started so soon after
    /// the first that its win does not show that the first was stuck.
    First {
        /// The run time of the copy that won, in ns.
        ran_ns: u64,
        /// The second copy that lost. `None` if there was none, or if its loss is not evidence.
        tried: Option<Tried>,
        /// Whether other queries waited.
        crowded: bool,
    },
    /// The second copy won.
    Second {
        /// The run time of the second copy, in ns.
        ran_ns: u64,
        /// The second copy, if its win is evidence. If the second copy started no later than the
        /// first, its win does not show that the first is stuck.
        tried: Option<Tried>,
        /// Whether other queries waited.
        crowded: bool,
    },
    /// An exploration was stopped, so its result is unknown.
    Displaced {
        /// The time at risk, in ns: how long the exploration ran while it could have been stopped.
        risked_ns: u64,
    },
    /// A first copy was left running after the second one had won, and has now ended or been
    /// stopped.
    Audit {
        /// The run time of the first copy, in ns. This is a lower bound if the copy was stopped.
        ran_ns: u64,
        /// The run time of the second copy, in ns.
        second_ns: u64,
    },
    /// A query's only copy won.
    Run {
        /// The time from sending the copy to its response, in ns. If the copy waited at its server,
        /// this is the time since the response that made room for it.
        ran_ns: u64,
        /// How long the copy had waited at its server, in ns. It is 0 if the copy was sent to an
        /// idle slot.
        waited_ns: u64,
    },
    /// A query was answered by any of its copies.
    Answered {
        /// The age of the query's first copy, in ns.
        age_ns: u64,
    },
    /// A copy responded from a server whose number of slots is unknown.
    Place {
        /// The number of older copies of its cell that the server held.
        older: u32,
    },
}

/// A second copy that ran until its query ended or until it was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The age of the query when the second copy started or, if later, when its result began to
    /// count as evidence.
    pub age_ns: u64,
    /// Whether the copy was a rescue. Otherwise it was an exploration, which may be stopped at any
    /// time.
    pub rescue: bool,
    /// The time at risk, in ns: how long it ran while it could have been stopped. 0 for a rescue.
    pub risked_ns: u64,
}

/// Parameters learned from all cells of a service. Each cell applies them to queries that start
/// from now on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// T: the age at which a query with one copy becomes a suspect. At [`NEVER_NS`], no
    /// query becomes one.
    pub suspect_ns: u64,
    /// The run time at which a rescue is given up. If T is longer, the rescue is given up at T.
    pub give_up_ns: u64,
    /// The age that few queries reach, in ns, regardless of their cost. From this age on, an idle
    /// server may run a second copy of a query whose T is later because the query is expensive or
    /// its server is slow.
    pub unusual_ns: u64,
    /// A suspect is served before the queue only if at most this many queries wait.
    pub overtakes: u32,
    /// The ages at which an idle server may run an exploration. There are no explorations at
    /// [`NEVER_NS`].
    pub explore: [Exploration; 2],
    /// The copy that is replaced by a third one when a rescue is given up. `None` if such queries
    /// are probably long, not stuck.
    pub replaces: Option<Replaced>,
    /// ŝ: the number of a cell's copies that a server serves at the same time. It is learned if the
    /// number of slots is unknown.
    pub slots: u32,
    /// Whether hiccups are known to affect copies, so that idle servers may duplicate queries
    /// immediately (pre-empt).
    pub at_once: bool,
    /// To measure how long first copies are stuck, one in this number of first copies that lose to
    /// a second copy is left running. The number is 0 before the first such audit: the first copy
    /// is then left running even if other copies wait at its server.
    pub audit_every: u32,
    /// The round trip to a server in ns, estimated from copies that waited there.
    pub round_trip_ns: u64,
    /// How many copies may wait at servers.
    pub prefetch: Prefetch,
}

/// How many copies may wait at a server, to keep it from idling for a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// The number of waiting copies for a server with 64 slots. Other servers get a proportional
    /// number, rounded up.
    pub per_64: u32,
    /// Servers with fewer slots than this get no waiting copies.
    pub least_slots: u32,
    /// Only one copy in this number lets further copies wait when it ends. This number is above 1
    /// while the service is still learning whether waiting pays off.
    pub one_in: u32,
}

impl Prefetch {
    /// No copy may wait.
    pub const NONE: Self = Self { per_64: 0, least_slots: 1, one_in: 1 };
}

/// Which copy of a query is replaced when both are probably stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The first one. If they are not both stuck, the first one is probably stuck, and the rescue
    /// is further along than a third copy would be.
    First,
    /// The rescue. If they are not both stuck, the query is probably long, and the first copy is
    /// further along than the rescue.
    Second,
}

/// One query in `every` may be explored at the age `age_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exploration {
    /// The age in ns, relative to the expected cost if queries have cost hints.
    pub age_ns: u64,
    /// At least 1.
    pub every: u32,
}

impl Snapshot {
    /// The parameters before anything is learned.
    pub const NOTHING: Self = Self {
        suspect_ns: NEVER_NS,
        give_up_ns: 0,
        unusual_ns: NEVER_NS,
        overtakes: u32::MAX,
        explore: [Exploration { age_ns: NEVER_NS, every: 1 }; 2],
        replaces: None,
        slots: u32::MAX,
        at_once: false,
        audit_every: 1,
        round_trip_ns: 0,
        prefetch: Prefetch::NONE,
    };
}
