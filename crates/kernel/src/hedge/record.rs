//! What cells record about their queries, and what the service concludes.

use alloc::vec::Vec;

/// How a query ended, or a copy that was let run on. Times are relative where queries have cost hints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Record {
    /// Its first copy answered, or a second one that tells nothing.
    First {
        /// When it was so many ns old.
        ran_ns: u64,
        /// What came of trying a second one, if that was seen to its end.
        tried: Option<Tried>,
        /// Others waited.
        crowded: bool,
    },
    /// Its second copy answered.
    Second {
        /// After so many ns.
        ran_ns: u64,
        /// When it was tried, if its trial says something: a copy that did not start later than the
        /// first has won a race, and not shown that the first is stuck.
        tried: Option<Tried>,
        /// Others waited.
        crowded: bool,
    },
    /// An exploration was stopped, and nobody knows what would have come of it.
    Displaced {
        /// After so many ns.
        risked_ns: u64,
    },
    /// A first copy that was let run on, though its second one had won, has ended or was stopped.
    Audit {
        /// After so many ns, or more.
        ran_ns: u64,
        /// The second one had taken so many.
        second_ns: u64,
    },
    /// A query's only copy answered.
    Run {
        /// So many ns after it was sent; or, if it waited at its server, after the response that made room for it.
        ran_ns: u64,
        /// For how long it had waited there, in ns; 0 if it was sent to an idle slot.
        waited_ns: u64,
    },
    /// A query was answered, whichever copy did it.
    Answered {
        /// The age of its first copy, in ns.
        age_ns: u64,
    },
    /// A copy answered whose server has an unknown number of slots.
    Place {
        /// How many older copies of its cell the server held.
        older: u32,
    },
}

/// Records that a cell keeps between two epochs; what comes then is not recorded.
const MOST_RECORDS: usize = 16_384;

/// What a cell has recorded since the last epoch.
#[derive(Clone, Debug, Default)]
pub(super) struct Records(Vec<Record>);

impl Records {
    pub(super) fn push(&mut self, record: Record) {
        if self.0.len() < MOST_RECORDS {
            self.0.push(record);
        }
    }

    pub(super) fn publish(&mut self, into: &mut Vec<Record>) {
        into.append(&mut self.0);
    }
}

/// A second copy that ran to its end, or was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The age of the query when it started, or when nothing could stop it any more.
    pub age_ns: u64,
    /// It was a rescue; else an exploration, which may be stopped at any time.
    pub rescue: bool,
    /// For how long that could have happened, in ns; 0 of a rescue.
    pub risked_ns: u64,
}

/// What cells go by: learned from all cells of a service, for queries that start from now on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// T: a query with one copy of this age is a suspect. [`crate::NEVER_NS`]: none is.
    pub suspect_ns: u64,
    /// The age at which a rescue is given up, if that is above T.
    pub give_up_ns: u64,
    /// The age that few queries reach, in ns, whatever they cost. From then on an idle server may run a second copy of a
    /// query whose T is later, because it costs much or its server is slow.
    pub unusual_ns: u64,
    /// A suspect overtakes the queue if no more queries wait.
    pub overtakes: u32,
    /// Ages at which an idle server may try a second copy, to learn: one query in so many. Nothing is
    /// tried at [`crate::NEVER_NS`].
    pub explore: [Exploration; 2],
    /// The copy that gives way to a third one, if a rescue is given up; none where such queries are long.
    pub replaces: Option<Replaced>,
    /// The age at which a query with a learned delay gets a second copy, in ns.
    pub delay_ns: u64,
    /// ŝ: where slots are unknown, the number of a cell's copies that a server serves at once.
    pub slots: u32,
    /// Hiccups are known to befall copies, so idle servers may duplicate at once (pre-empt).
    pub at_once: bool,
    /// If a second copy answers, the first copy runs on in one query of this number, which shows how long it is stuck. 0 as long
    /// as there was none: it does even if other copies wait at its server.
    pub audit_every: u32,
    /// The round trip to a server, as far as copies that waited there show it, in ns.
    pub round_trip_ns: u64,
    /// Copies that wait at servers.
    pub prefetch: Prefetch,
}

/// How many copies may wait at a server, so that it does not idle for a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// At one of 64 slots; at others in proportion, rounded up.
    pub per_64: u32,
    /// None at servers of fewer slots.
    pub least_slots: u32,
    /// They may from the end of one copy in this number on; more than 1 to learn whether that pays.
    pub one_in: u32,
}

impl Prefetch {
    /// None.
    pub const NONE: Self = Self { per_64: 0, least_slots: 1, one_in: 1 };
}

/// Which copy of a query is replaced, where both are probably stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The first one. If the query is long instead, the first one is stuck more often than not.
    First,
    /// The rescue.
    Second,
}

/// One query in `every` may be tried at the age `age_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exploration {
    /// In ns, relative where queries have cost hints.
    pub age_ns: u64,
    /// 1 or more.
    pub every: u32,
}

impl Snapshot {
    /// Nothing is known.
    pub const NOTHING: Self = Self {
        suspect_ns: crate::NEVER_NS,
        give_up_ns: 0,
        unusual_ns: crate::NEVER_NS,
        overtakes: u32::MAX,
        explore: [Exploration { age_ns: crate::NEVER_NS, every: 1 }; 2],
        replaces: None,
        delay_ns: crate::NEVER_NS,
        slots: u32::MAX,
        at_once: false,
        audit_every: 1,
        round_trip_ns: 0,
        prefetch: Prefetch::NONE,
    };
}
