//! The state of a running query, and its time scale.

use crate::cell::CopyView;
use crate::id::{CopyId, ServerId};
use crate::time::{NEVER_NS, Timestamp};

/// The time scale of a query. Ages and run times are measured relative to the cost of the query and
/// the pace of its server. The round trip is not scaled, because it takes the same time for all
/// queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measure {
    /// Relative nanoseconds per nanosecond.
    per_ns: f64,
    trip_ns: u64,
}

impl Measure {
    /// The scale of an ordinary query on an ordinary server.
    pub(super) const PLAIN: Self = Self { per_ns: 1.0, trip_ns: 0 };

    /// The scale of a query that takes `by` times as long as others, except for the round trip of
    /// `trip_ns`.
    pub(super) fn stretched(by: f64, trip_ns: u64) -> Self {
        if by == 1.0 { Self::PLAIN } else { Self { per_ns: 1.0 / by, trip_ns } }
    }

    pub(super) fn relative(self, ns: u64) -> u64 {
        self.beyond_trip(ns, self.per_ns)
    }

    /// Converts a relative time to ns.
    pub(super) fn absolute(self, ns: u64) -> u64 {
        if ns == NEVER_NS { ns } else { self.beyond_trip(ns, 1.0 / self.per_ns) }
    }

    fn beyond_trip(self, ns: u64, times: f64) -> u64 {
        if self == Self::PLAIN || ns <= self.trip_ns {
            return ns;
        }
        self.trip_ns + ((ns - self.trip_ns) as f64 * times) as u64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Second {
    pub(super) id: CopyId,
    /// [`Timestamp::NEVER`] while the copy waits at its server.
    pub(super) started: Timestamp,
    pub(super) paid: bool,
}

impl Second {
    pub(super) fn has_begun(&self) -> bool {
        self.started != Timestamp::NEVER
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Book {
    /// When the query's first copy began to execute. It is [`Timestamp::NEVER`] if the query is not
    /// watched, and while that copy waits at its server.
    pub(super) first_at: Timestamp,
    pub(super) server: ServerId,
    /// `waited_ns` is how long that copy had waited at its server. `lead_ns` is the difference
    /// between its age and the time since the response that made room for it. Both are in ns.
    pub(super) waited_ns: u64,
    pub(super) lead_ns: u64,
    /// The expected cost of the query, relative to other queries.
    pub(super) cost: f64,
    pub(super) measure: Measure,
    /// T, in ns.
    pub(super) suspect_ns: u64,
    /// The run time at which a rescue is given up, in ns.
    pub(super) give_up_ns: u64,
    /// The age from which an idle server may run a second copy, in ns.
    pub(super) idle_ns: u64,
    /// The age, in ns, from which the result of a second copy is evidence of whether the first was
    /// stuck.
    pub(super) evidence_ns: u64,
    /// Whether the pace of its server was known when the query began.
    pub(super) is_settled: bool,
    pub(super) second: Option<Second>,
    /// Whether a rescue was given up because the query is long, not stuck.
    pub(super) long: bool,
    /// Whether one of its copies was stopped because both seemed to be stuck.
    pub(super) replaced: bool,
}

impl Book {
    pub(super) const NONE: Self = Self {
        first_at: Timestamp::NEVER,
        server: ServerId(0),
        waited_ns: 0,
        lead_ns: 0,
        cost: 1.0,
        measure: Measure::PLAIN,
        suspect_ns: NEVER_NS,
        give_up_ns: NEVER_NS,
        idle_ns: NEVER_NS,
        evidence_ns: NEVER_NS,
        is_settled: false,
        second: None,
        long: false,
        replaced: false,
    };

    pub(super) fn is_watched(&self) -> bool {
        self.first_at != Timestamp::NEVER
    }

    /// Updates the state of the query for the copies that are left, newest first. If one is left,
    /// the query takes on the age of that copy. The start of a rescue that was given up is kept,
    /// because it is evidence.
    pub(super) fn left_with(&mut self, mut copies: impl Iterator<Item = CopyView>) {
        let (Some(newest), None) = (copies.next(), copies.next()) else { return };
        let left = self.second.filter(|second| second.id == newest.id);
        if let Some(second) = left {
            // The first copy is gone, so the query now has the age of the second.
            (self.first_at, self.server) = (second.started, newest.server);
        }
        if left.is_some() || !self.long {
            self.second = None;
        }
    }

    pub(super) fn suspect_at(&self) -> Timestamp {
        self.first_at.after(self.suspect_ns)
    }

    pub(super) fn idle_at(&self) -> Timestamp {
        self.first_at.after(self.idle_ns)
    }
}
