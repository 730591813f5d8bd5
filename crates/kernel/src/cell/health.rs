//! The health of servers: ejection, its back-off, and panic mode.
//!
//! Source: the outlier detection and the panic threshold of Envoy, and the active checks of
//! HAProxy. Cost: O(1) per failure; O(groups of the server × their servers) when a server goes down
//! or returns.
//!
//! **One path.** Every kind of failure is counted in [`Cell::count_failure`], and `eject_after`
//! failures in a row eject a server. The count restarts at the end of a good response, not when the
//! head of the response arrives. Refusals have a separate limit, `eject_after_refusals`: a server
//! that refuses some of its requests protects itself from overload, and its ejection would overload
//! its peers.
//!
//! **Evidence.** A failed response is evidence against the server or against the request. While the
//! query is retried, the failure does not count. A good response from another server then shows
//! that the first server was at fault. A second failure shows that the request is at fault
//! ([`Blame`]). A server is ejected only while a peer is known to do better: the last evidence
//! about that peer was a good response.
//!
//! **A cap.** In every group of the server, at least one server and at least the fraction 1 −
//! `max_ejected` of all servers stay up. Absent places do not count (`membership.rs`).
//!
//! **Back-off.** The k-th ejection lasts at least `ejection_ns` · 2^(k−1), limited to
//! `ejection_max_ns`. After that, one successful probe ([`crate::Event::ServerUp`]) ends it. After
//! a server has stayed up for `ejection_max_ns`, its next ejection has k = 1 again.
//!
//! **Need.** The back-off ends early if a probe succeeds while the queue of one of the server's
//! groups is at least half full ([`Core::is_needed`]). A long back-off after short faults would
//! otherwise turn away queries that the server can serve.
//!
//! **Panic mode.** While no server of a group is up, its ejected servers and those whose probes
//! fail are used as if they were up. The reason is that the evidence against all of them is
//! probably wrong. Servers that are draining, that accept no connections, that are down, or that
//! have left are not used. Queries for which there is no server wait until their deadline.
//!
//! Choice: a server in several groups is used for all of them while one of them is in panic mode.

use core::ops::DerefMut;

use super::Cell;
use super::copies::Blame;
use super::core::Core;
use crate::action::{Action, EjectReason};
use crate::balance::Pick;
use crate::config::Limits;
use crate::descriptor::Compiled;
use crate::hedge::Hedge;
use crate::id::{QueryId, ServerId};
use crate::servers::{Health, Streak};
use crate::time::Timestamp;

impl Core {
    /// Sets the health of a server. Returns whether it changed.
    pub(super) fn set_health(&mut self, server: ServerId, health: Health) -> bool {
        let state = &mut self.servers[server.index()];
        let before = core::mem::replace(&mut state.health, health);
        if before == health {
            return false;
        }
        state.failures = Streak::NEW;
        self.drop_holds(server);
        if before == Health::Ejected {
            self.timers.ejections.remove(0, server.0);
        }
        let (from, to) = self.servers[server.index()].groups;
        for at in from..to {
            let group = self.memberships[at as usize].0.index();
            let up_before = self.groups[group].up;
            match (before, health) {
                (Health::Up, _) => self.groups[group].up -= 1,
                (_, Health::Up) => self.groups[group].up += 1,
                _ => {}
            }
            match (before, health) {
                (_, Health::Absent) => self.groups[group].members -= 1,
                (Health::Absent, _) => self.groups[group].members += 1,
                _ => {}
            }
            // If panic mode begins or ends, the other servers of the group open or close with it.
            if (up_before == 0) != (self.groups[group].up == 0) {
                for member in 0..self.groups[group].servers.len() {
                    self.reopen(self.groups[group].servers[member]);
                }
            }
        }
        self.reopen(server);
        true
    }

    /// Opens a server to new copies or closes it, according to its health and its peers' health.
    fn reopen(&mut self, server: ServerId) {
        let health = self.servers[server.index()].health;
        let panics = || self.groups_of(server).any(|group| self.groups[group.index()].up == 0);
        let open = health == Health::Up || (health.may_panic() && panics());
        let state = &mut self.servers[server.index()];
        if state.is_open() == open {
            return;
        }
        let closed = self.timers.openings.contains(server.0);
        state.set_open(open, closed);
        self.sort(server);
        let (from, to) = self.servers[server.index()].groups;
        for at in from..to {
            let group = &mut self.groups[self.memberships[at as usize].0.index()];
            if open {
                group.open += 1;
            } else {
                group.open -= 1;
                // A query that avoided the only remaining server may go there now.
                self.todo.freed.extend_from_slice(&group.servers);
            }
        }
        if open {
            self.todo.freed.push(server);
        }
    }

    /// Whether the queue of one of the server's groups is at least half full, so its peers cannot do
    /// without it.
    fn is_needed(&self, server: ServerId) -> bool {
        self.groups_of(server).any(|group| {
            let waiting = self.groups[group.index()].waiting;
            waiting > 0 && waiting >= self.limits.queue.div_ceil(2)
        })
    }

    /// Whether a peer of the server is known to do better, and each group of the server can spare
    /// one more server.
    fn may_eject(&self, server: ServerId) -> bool {
        let mut peer = false;
        for group in self.groups_of(server) {
            let group = &self.groups[group.index()];
            let ejected = self.limits.max_ejected * f64::from(group.members);
            let keep = group.members - ejected as u32;
            if group.up <= keep.max(1) {
                return false;
            }
            peer |= group.servers.iter().any(|&other| {
                let other = &self.servers[other.index()];
                other.health == Health::Up && other.failures == Streak::GOOD
            });
        }
        peer
    }
}

impl<P, H> Cell<P, H>
where
    P: DerefMut<Target: Pick + Compiled>,
    H: DerefMut<Target: Hedge<P::Target> + Compiled>,
{
    pub(super) fn count_failure(&mut self, server: ServerId, why: EjectReason) {
        let Limits { eject_after, eject_after_refusals, .. } = self.core.limits;
        let (unit, many) = match why {
            EjectReason::Refused => (Streak::REFUSAL, eject_after_refusals),
            _ => (1, eject_after),
        };
        let state = &mut self.core.servers[server.index()];
        let failures = state.failures.add(unit);
        let up = state.health == Health::Up;
        if up && many > 0 && failures >= many.min(Streak::MOST) && self.core.may_eject(server) {
            self.eject(server, why);
        }
    }

    /// Settles whether the first server that failed a query is at fault. It is if another server
    /// sent a good response, or if the query cannot be sent to another server.
    pub(super) fn settle_blame(&mut self, query: QueryId, winner: Option<ServerId>) {
        let state = &mut self.core.queries[query.index()];
        let blame = core::mem::replace(&mut state.blame, Blame::Nothing);
        if let Blame::Server(server, why) = blame
            && winner != Some(server)
        {
            self.count_failure(server, why);
        }
    }

    /// Ejects a server. Its copies continue: some may be in the middle of a good response. They
    /// keep their slots, because the server may still be working on them.
    fn eject(&mut self, server: ServerId, why: EjectReason) {
        *self.core.out.next() = Action::Eject { server, why };
        self.core.set_health(server, Health::Ejected);
        let (now, limits) = (self.core.now, self.core.limits);
        let ejections = &mut self.core.ejections[server.index()];
        if now >= ejections.ended.after(limits.ejection_max_ns) {
            ejections.count = 0;
        }
        let doubled = limits.ejection_ns.saturating_mul(1 << ejections.count.min(63));
        ejections.count += 1;
        ejections.until = now.after(doubled.min(limits.ejection_max_ns));
        ejections.probed = false;
        let until = ejections.until;
        if until > now && until != Timestamp::NEVER {
            self.core.timers.ejections.insert(0, until, server.0);
        }
    }

    /// Handles a successful probe or an operator's order. The minimum time of an ejection still
    /// applies, unless the server is needed.
    pub(super) fn server_up(&mut self, server: ServerId) {
        if !self.core.is_member(server) {
            return;
        }
        let ejections = &mut self.core.ejections[server.index()];
        ejections.probed = true;
        let ejected = self.core.servers[server.index()].health == Health::Ejected;
        let is_over = ejections.until <= self.core.now;
        if !ejected || is_over || self.core.is_needed(server) {
            self.restore(server);
        }
    }

    pub(super) fn restore(&mut self, server: ServerId) {
        if !self.core.set_health(server, Health::Up) {
            return;
        }
        self.core.ejections[server.index()].ended = self.core.now;
        self.core.begin_ramp(server);
        if self.core.conduct.biases {
            self.core.bias(server, false);
        }
        *self.core.out.next() = Action::Restore { server };
    }

    /// Ends the ejections whose minimum time is over, if a probe has succeeded.
    pub(super) fn end_ejections(&mut self) {
        while let Some((at, server)) = self.core.timers.ejections.first(0)
            && at <= self.core.now
        {
            self.core.timers.ejections.remove(0, server);
            if self.core.ejections[server as usize].probed {
                self.restore(ServerId(server));
            }
        }
    }

    pub(super) fn server_unhealthy(&mut self, server: ServerId, listens: bool) {
        match (self.core.servers[server.index()].health, listens) {
            (Health::Ejected, true) => self.core.ejections[server.index()].probed = false,
            (Health::Draining | Health::Absent, _) => {}
            (_, true) => _ = self.core.set_health(server, Health::Unhealthy),
            (_, false) => _ = self.core.set_health(server, Health::Unreachable),
        }
    }

    pub(super) fn server_draining(&mut self, server: ServerId) {
        if self.core.is_member(server) {
            self.core.set_health(server, Health::Draining);
        }
    }

    pub(super) fn server_down(&mut self, server: ServerId) {
        let has_left = !self.core.is_member(server);
        if has_left || self.core.set_health(server, Health::Down) {
            for slot in self.core.copies.on(server) {
                self.lose(slot);
            }
            // The copies were lost in no particular order. So the loss of one of them must not
            // determine how many copies may wait at this server when it returns.
            self.core.prefetch(server, 0);
        }
    }
}
