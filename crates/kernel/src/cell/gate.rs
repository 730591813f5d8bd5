//! Changes gates: closes a server temporarily, and changes the number of copies that it may hold.
//!
//! Rates ([`crate::rate`]), throttlers, slow starts, and live changes of the configuration all use
//! these two operations. Cost: O(log servers) to close or open a server, O(1) to change its limit,
//! and nothing for gates that do not change.
//!
//! Within the limits of the gates, work is conserved: a query waits only while every server of its
//! group that may serve it is full, closed or out of service. If a server already holds more copies
//! than a new limit allows, those copies continue.

use super::core::Core;
use crate::id::{GroupId, ServerId};
use crate::outcome::Outcome;
use crate::time::Timestamp;

impl Core {
    /// Closes a server to new copies until the given time, which replaces any earlier one. If the
    /// time is in the past, the server opens. The server's running copies continue. While a server
    /// is closed, it gets no duplicates either.
    pub(crate) fn close_until(&mut self, server: ServerId, until: Timestamp) {
        self.closed_until[server.index()] = until;
        self.settle_opening(server);
    }

    /// Opens a server at the later of two times: the one that its driver set, and the one that its
    /// rate allows.
    fn settle_opening(&mut self, server: ServerId) {
        let rate = self.rates.as_ref().map_or(Timestamp::default(), |rates| rates.next(server));
        let until = self.closed_until[server.index()].max(rate);
        let was_closed = self.timers.openings.remove(0, server.0);
        let closed = until > self.now;
        if closed {
            self.timers.openings.insert(0, until, server.0);
        }
        if was_closed != closed {
            self.move_gate(server);
        }
    }

    /// Handles a server that asks for a pause. If each of its groups has another server that takes
    /// copies, closes it for at most [`crate::Limits::retry_after_max_ns`].
    pub(super) fn pause(&mut self, server: ServerId, ns: u64) {
        let until = self.now.after(ns.min(self.limits.retry_after_max_ns));
        let has_other = |&group: &GroupId| {
            self.servers_of(group).iter().any(|&other| other != server && self.takes_copies(other))
        };
        let needed = self.groups_of(server).any(|group| !has_other(&group));
        if !needed && until > self.now.max(self.closed_until[server.index()]) {
            self.close_until(server, until);
        }
    }

    /// Sets the number of copies that a server may hold. The number is clamped to the range from 1
    /// to [`crate::Topology::MAX_GATE`].
    pub(crate) fn set_limit(&mut self, server: ServerId, limit: u32) {
        let limit = limit.clamp(1, crate::Topology::MAX_GATE);
        self.make_room(server, limit);
        self.move_gate(server);
    }

    /// Sets the number of copies that a server may hold beyond its slots, per 64 slots. It must be
    /// called when one of the server's copies has just ended. The caller fills the server next, so
    /// nothing else has to be settled. It has no effect on a server whose limit differs from its
    /// number of slots.
    #[inline(always)]
    pub(crate) fn prefetch(&mut self, server: ServerId, per_64: u32) {
        let state = &self.servers[server.index()];
        let is_free = state.limit == state.slots;
        let copies = if is_free { (state.slots * per_64).div_ceil(64) } else { 0 };
        if state.prefetch != copies {
            self.change_prefetch(server, copies);
        }
    }

    #[cold]
    #[inline(never)]
    fn change_prefetch(&mut self, server: ServerId, copies: u32) {
        let closed = self.is_closed(server);
        let state = &mut self.servers[server.index()];
        state.prefetch = copies;
        state.set_open(state.is_open(), closed);
        let limit = state.limit;
        self.make_room(server, limit);
        self.sort(server);
    }

    fn make_room(&mut self, server: ServerId, limit: u32) {
        let full = self.bias + self.servers[server.index()].set_limit(limit);
        let (from, to) = self.servers[server.index()].groups;
        for at in from..to {
            let group = &mut self.groups[self.memberships[at as usize].0.index()];
            if let Some(order) = &mut group.order {
                order.make_room(full);
            }
        }
    }

    /// Whether the server is temporarily closed, whatever its health.
    #[must_use]
    pub fn is_closed(&self, server: ServerId) -> bool {
        self.timers.openings.contains(server.0)
    }

    fn move_gate(&mut self, server: ServerId) {
        let closed = self.is_closed(server);
        let state = &mut self.servers[server.index()];
        state.set_open(state.is_open(), closed);
        // This includes a full server, because a hedge may make room on a server that has opened.
        if self.takes_copies(server) {
            self.todo.freed.push(server);
        }
        self.sort(server);
    }

    /// Opens the servers that are due to open.
    pub(super) fn open_gates(&mut self) {
        while let Some((at, server)) = self.timers.openings.first(0)
            && at <= self.now
        {
            self.settle_opening(ServerId(server));
        }
    }

    /// Records the start of a copy on a tracked server.
    #[inline(never)]
    pub(crate) fn track_start(&mut self, server: ServerId) {
        if let Some(rates) = &mut self.rates
            && rates.spend(server, self.now) > self.now
        {
            return self.settle_opening(server);
        }
        self.sort(server);
    }

    /// Adapts the rate of a server after the end of a copy. If the server is closed, this also
    /// changes the time at which it opens.
    pub(super) fn adapt_rate(&mut self, server: ServerId, took_ns: u64, outcome: Outcome) {
        let Some(rates) = &mut self.rates else { return };
        rates.ended(server, self.now, took_ns, outcome);
        let until = self.closed_until[server.index()].max(rates.next(server));
        // If the opening is already due, the next tick handles it.
        if until > self.now && self.timers.openings.remove(0, server.0) {
            self.timers.openings.insert(0, until, server.0);
        }
    }

    /// Returns the rate of a server, in copies per second. `None` if rates are not limited.
    #[must_use]
    pub fn rate(&self, server: ServerId) -> Option<f64> {
        self.rates.as_ref().map(|rates| rates.per_second(server))
    }
}
