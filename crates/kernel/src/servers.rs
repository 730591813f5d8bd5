//! The state of the servers and groups of a cell: gates, loads and health.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::id::{NONE, ServerId};
use crate::order::{FULL, Order};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Up,
    /// The server was ejected after consecutive failures.
    Ejected,
    /// Its probes fail.
    Unhealthy,
    /// The server accepts no connections. It may still finish its running copies.
    Unreachable,
    /// An operator is taking the server out of service.
    Draining,
    Down,
    /// No server has the place: see `cell/membership.rs`.
    Absent,
}

impl Health {
    pub(crate) fn may_panic(self) -> bool {
        matches!(self, Self::Ejected | Self::Unhealthy)
    }
}

/// The numbers of failures and refusals since the last good response, and whether there was one.
/// They are packed into one word, because the end of every good response sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Streak(u32);

impl Streak {
    const UNPROVEN: u32 = 1 << 31;
    pub(crate) const REFUSAL: u32 = 1 << 16;
    /// The maximum value of each of the two counts.
    pub(crate) const MOST: u32 = 0x7fff;
    pub(crate) const NEW: Self = Self(Self::UNPROVEN);
    pub(crate) const GOOD: Self = Self(0);

    /// Adds one failure or one refusal, depending on `unit`, and returns the number of that kind.
    pub(crate) fn add(&mut self, unit: u32) -> u32 {
        let count = |streak: u32| (streak / unit) & Self::MOST;
        self.0 += if count(self.0) < Self::MOST { unit } else { 0 };
        count(self.0)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ejections {
    pub(crate) count: u32,
    /// The earliest time at which the current ejection may end.
    pub(crate) until: Timestamp,
    pub(crate) ended: Timestamp,
    pub(crate) probed: bool,
}

/// The value of [`ServerState::ramp`] for a server that is not in its ramp.
pub(crate) const NO_RAMP: u32 = u32::MAX;

/// A good response moves the average by 1/8 of the difference.
const WEIGHT_SHIFT: u32 = 3;

/// Returns the average after one more good response, which took `took_ns`. An average of 0 means
/// that there was no response before.
#[inline(always)]
fn sample(typical_ns: u64, took_ns: u64) -> u64 {
    match typical_ns {
        0 => took_ns,
        typical => {
            typical.wrapping_add_signed((took_ns.wrapping_sub(typical) as i64) >> WEIGHT_SHIFT)
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerState {
    pub(crate) health: Health,
    pub(crate) slots: u32,
    pub(crate) limit: u32,
    /// Number of copies that the server may hold beyond `limit`, so that the next copy is already
    /// there when one ends.
    pub(crate) prefetch: u32,
    /// How many fewer slots it has than the largest server, plus the corrections for bias and light
    /// copies.
    pub(crate) load_bias: u32,
    /// Number of copies that the server holds, plus `load_bias`. So among unequal servers, the
    /// least loaded one has the most idle slots or the shortest queue.
    load: u32,
    /// The load at which its gate is full, or 0 if it may get no copies.
    pub(crate) full_at: u32,
    /// The server's load as picks see it, or [`FULL`].
    pub(crate) level: u32,
    /// Whether the server's health allows copies.
    open: bool,
    /// Whether picks prefer other servers.
    pub(crate) biased: bool,
    /// Number of its copies that do not count as load, because its stage serves them after all
    /// others.
    pub(crate) light: u32,
    /// Number of slots held for copies that were refused or failed: see `typical.rs`. They count as
    /// load.
    pub(crate) held: u32,
    /// Number of copies that it may hold after it has returned, or [`NO_RAMP`]: see `ramp.rs`.
    pub(crate) ramp: u32,
    /// Moving average of the time that a good response takes, in ns. It is 0 before the first one.
    pub(crate) typical_ns: u64,
    /// Whether the cell tracks its copies: see `Core::keeps_books` and `ramp.rs`.
    pub(crate) tracked: bool,
    pub(crate) failures: Streak,
    /// The server's range in `Core::memberships`.
    pub(crate) groups: (u32, u32),
}

impl ServerState {
    pub(crate) fn new(slots: u32, limit: u32, load_bias: u32) -> Self {
        Self {
            health: Health::Up,
            slots,
            limit,
            prefetch: 0,
            load_bias,
            load: load_bias,
            full_at: load_bias + limit,
            level: load_bias,
            open: true,
            biased: false,
            light: 0,
            held: 0,
            ramp: NO_RAMP,
            typical_ns: 0,
            tracked: false,
            failures: Streak::NEW,
            groups: (0, 0),
        }
    }

    pub(crate) fn outstanding(&self) -> u32 {
        self.load - self.load_bias
    }

    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.load < self.full_at
    }

    /// Whether the server's health allows copies. Its gate may still be closed or full.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    pub(crate) fn set_open(&mut self, open: bool, closed: bool) {
        self.open = open;
        let limit = self.gate();
        self.full_at = if open && !closed { self.load_bias + limit } else { 0 };
        self.set_load(self.load);
    }

    /// Returns the number of copies that it may hold if it is open.
    pub(crate) fn gate(&self) -> u32 {
        (self.limit + self.prefetch).min(self.ramp)
    }

    /// Sets the limit, and returns the load at which it is full.
    pub(crate) fn set_limit(&mut self, limit: u32) -> u32 {
        self.limit = limit;
        self.load_bias + self.light + limit + self.prefetch
    }

    #[inline(always)]
    pub(crate) fn inc_outstanding(&mut self) {
        debug_assert!(self.has_room(), "a start needs room");
        self.set_load(self.load + 1);
    }

    #[inline(always)]
    pub(crate) fn dec_outstanding(&mut self) {
        debug_assert!(self.load > self.load_bias, "every slot is freed once");
        self.set_load(self.load - 1);
    }

    /// Records the end of a good response.
    #[inline(always)]
    pub(crate) fn is_well(&mut self) {
        self.failures = Streak::GOOD;
    }

    /// Records that a good response took `ns`.
    #[inline(always)]
    pub(crate) fn took(&mut self, ns: u64) {
        self.typical_ns = sample(self.typical_ns, ns);
    }

    /// Records that a copy was stopped after `ns`, so its response would have taken longer. It is
    /// ignored as a first sample, because it may be short.
    pub(crate) fn takes_at_least(&mut self, ns: u64) {
        if self.typical_ns > 0 && ns > self.typical_ns {
            self.typical_ns = sample(self.typical_ns, ns);
        }
    }

    /// Holds the slot of a copy that ended before a good response would have arrived.
    pub(crate) fn hold(&mut self) {
        self.held += 1;
        self.set_load(self.load + 1);
    }

    pub(crate) fn end_hold(&mut self) {
        self.held -= 1;
        self.set_load(self.load - 1);
    }

    /// Returns the number of its copies that another copy may have to wait for.
    pub(crate) fn ahead(&self) -> u32 {
        self.outstanding().saturating_sub(self.light)
    }

    /// Excludes one more of its copies from its load, or includes one again.
    pub(crate) fn lighten(&mut self, more: bool) {
        let change = if more { -1 } else { 1 };
        let moved =
            |x: u32| x.checked_add_signed(change).expect("there is a lift for each of them");
        self.light = self.light.checked_add_signed(-change).expect("each ends once");
        self.load_bias = moved(self.load_bias);
        if self.full_at > 0 {
            self.full_at = moved(self.full_at);
        }
        self.set_load(moved(self.load));
    }

    /// Adds `copies` to the server's load, or subtracts them.
    pub(crate) fn bias(&mut self, copies: u32, biased: bool) {
        self.biased = biased;
        let move_by = |x: &mut u32| if biased { *x += copies } else { *x -= copies };
        move_by(&mut self.load_bias);
        move_by(&mut self.load);
        if self.full_at > 0 {
            move_by(&mut self.full_at);
        }
        self.set_load(self.load);
    }

    #[inline(always)]
    fn set_load(&mut self, load: u32) {
        self.load = load;
        self.level = if self.has_room() { load } else { FULL };
    }
}

/// A server, as drivers and tests see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerView {
    /// Whether a server has this place. If not, its last server has left, and may still hold copies.
    pub member: bool,
    /// Whether the server is up.
    pub up: bool,
    /// Number of queries that the server serves at the same time.
    pub slots: u32,
    /// Its gate: the number of copies that it may hold.
    pub limit: u32,
    /// Number of copies that the server holds.
    pub outstanding: u32,
    /// Number of further slots that are taken because it has just refused or failed their copies.
    pub held: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct GroupState {
    pub(crate) servers: Vec<ServerId>,
    in_a_row: bool,
    pub(crate) order: Option<Box<Order>>,
    /// Number of servers, without absent places.
    pub(crate) members: u32,
    pub(crate) up: u32,
    /// Number of servers that may get copies: those that are up, or, in panic mode, all that are
    /// usable.
    pub(crate) open: u32,
    /// Waiting queries, oldest first, linked through `QueryState::behind`.
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) waiting: u32,
    /// Number of cancelled copies on the servers of the group. Their slots will become free.
    pub(crate) reclaiming: u32,
}

impl GroupState {
    pub(crate) fn new(servers: &[ServerId], full: u32) -> Self {
        Self {
            servers: servers.to_vec(),
            in_a_row: servers.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0),
            order: Order::new(servers.len(), full).map(Box::new),
            members: servers.len() as u32,
            up: servers.len() as u32,
            open: servers.len() as u32,
            head: NONE,
            tail: NONE,
            waiting: 0,
            reclaiming: 0,
        }
    }

    /// Returns the id of the first server and the states of all servers, if the ids are
    /// consecutive.
    #[inline(always)]
    pub(crate) fn consecutive<'a>(
        &self,
        states: &'a [ServerState],
    ) -> Option<(u32, &'a [ServerState])> {
        let first = self.servers.first().filter(|_| self.in_a_row)?;
        Some((first.0, &states[first.index()..first.index() + self.servers.len()]))
    }
}

#[cfg(test)]
mod tests {
    use super::sample;

    #[test]
    fn the_average_begins_with_the_first_response_and_follows_those_that_come() {
        assert_eq!(sample(0, 800), 800);
        assert_eq!(sample(800, 1_600), 900);
        assert_eq!(sample(800, 0), 700);
        let long = (0..100).fold(10, |typical, _| sample(typical, 1_000_000));
        assert!((999_000..=1_000_000).contains(&long), "{long}");
        assert_eq!(sample(u64::MAX / 2, u64::MAX / 2), u64::MAX / 2);
    }
}
