//! What is known of a running query, and in which measure of time.

use crate::cell::CopyView;
use crate::id::{CopyId, ServerId};
use crate::time::{NEVER_NS, Timestamp};

/// A query's own measure of time: ages are compared, and run times recorded, relative to what the
/// query and its server let expect. The round trip takes the same time for all queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measure {
    /// Relative nanoseconds per nanosecond.
    per_ns: f64,
    trip_ns: u64,
}

impl Measure {
    /// Of queries of which nothing special is expected.
    pub(super) const PLAIN: Self = Self { per_ns: 1.0, trip_ns: 0 };

    /// The measure of a query that takes `by` times as long as others, except for the round trip of `trip_ns`.
    pub(super) fn stretched(by: f64, trip_ns: u64) -> Self {
        if by == 1.0 { Self::PLAIN } else { Self { per_ns: 1.0 / by, trip_ns } }
    }

    pub(super) fn relative(self, ns: u64) -> u64 {
        self.beyond_trip(ns, self.per_ns)
    }

    /// A time of this measure, in ns.
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
    /// [`Timestamp::NEVER`] as long as it waits at its server.
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
    /// When its first copy began to execute; [`Timestamp::NEVER`] for a query that is not watched, as long
    /// as that copy waits at its server.
    pub(super) first_at: Timestamp,
    pub(super) server: ServerId,
    /// For how long that copy had waited at its server, and by how much its age is more than the time since the response
    /// that made room for it; in ns.
    pub(super) waited_ns: u64,
    pub(super) lead_ns: u64,
    /// How many times as much as others it is expected to cost.
    pub(super) cost: f64,
    pub(super) measure: Measure,
    /// T, in ns.
    pub(super) suspect_ns: u64,
    /// A rescue that has run for this long is given up, in ns.
    pub(super) give_up_ns: u64,
    /// The age at which an idle server may run a second copy, in ns.
    pub(super) idle_ns: u64,
    /// The age from which on the fate of a second copy tells whether the first was stuck, in ns.
    pub(super) tells_ns: u64,
    /// It is known how slow its server is.
    pub(super) is_settled: bool,
    pub(super) second: Option<Second>,
    /// A rescue was given up: it is long, and not stuck.
    pub(super) long: bool,
    /// Its first copy was stopped, because the rescue seemed to be stuck, too.
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
        tells_ns: NEVER_NS,
        is_settled: false,
        second: None,
        long: false,
        replaced: false,
    };

    pub(super) fn is_watched(&self) -> bool {
        self.first_at != Timestamp::NEVER
    }

    /// These copies are left, newest first: of one copy, the query has the age of that. When a rescue began
    /// that was given up is remembered, as it tells something.
    pub(super) fn left_with(&mut self, mut copies: impl Iterator<Item = CopyView>) {
        let (Some(newest), None) = (copies.next(), copies.next()) else { return };
        let left = self.second.filter(|second| second.id == newest.id);
        if let Some(second) = left {
            // The first is gone: its age is that of the other one.
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
