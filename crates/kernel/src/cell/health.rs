//! Which servers get new copies: ejection, its back-off, and panic mode.
//!
//! Source: the outlier detection and the panic threshold of Envoy, and the active checks of HAProxy.
//! Cost: O(1) per failure; O(groups of the server × their servers) when a server comes or goes.
//!
//! **One path.** A failure of whatever kind counts in [`Cell::count_failure`]: `eject_after` of them
//! in a row eject a server. The end of a good response ends the row; its head alone does not. Refusals have a rule of
//! their own, `eject_after_refusals`: a server that refuses some of its requests defends itself against overload, and
//! to eject it would overload its peers.
//!
//! **Evidence.** A failed response says something about the server or about the request. While the
//! query is sent again, nothing is counted; a good response from another server shows that the first
//! one was at fault, a second failure that the request is ([`Blame`]). A server is ejected only while
//! a peer is known to do better: the last thing heard of it was a good response.
//!
//! **A cap.** In every group of the server at least one server and the share 1 − `max_ejected` stay up.
//!
//! **Back-off.** The k-th ejection lasts at least `ejection_ns` · 2^(k−1), and at most
//! `ejection_max_ns`; then one successful probe ([`crate::Event::ServerUp`]) ends it. A server that
//! stayed up for `ejection_max_ns` begins anew with k = 1.
//!
//! **Panic mode.** While no server of a group is up, those that were ejected or whose probes fail are
//! used as if they were up: the evidence against all of them is probably wrong. Servers that drain,
//! accept no connections, or are down are not used. Queries that find no server wait until their deadline.
//!
//! Settled: a server in several groups is used for all of them while one of them is in panic mode.

use super::Cell;
use super::core::Core;
use crate::action::{Action, EjectReason};
use crate::balance::Pick;
use crate::config::Limits;
use crate::hedge::Hedge;
use crate::id::{QueryId, ServerId};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Up,
    /// For failures in a row.
    Ejected,
    /// Its probes fail.
    Unhealthy,
    /// Its probes find nothing that listens; it may be finishing what it has.
    Unreachable,
    /// An operator takes it out of service.
    Draining,
    Down,
}

impl Health {
    fn may_panic(self) -> bool {
        matches!(self, Self::Ejected | Self::Unhealthy)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// It has not failed, or for a reason that says nothing.
    Nothing,
    /// This server failed it; another one decides which of both is at fault.
    Server(ServerId, EjectReason),
    /// Two servers failed it.
    Request,
}

/// Failures and refusals since the last good response, and whether there was one. In one word, which every good end
/// sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Streak(u32);

impl Streak {
    const UNPROVEN: u32 = 1 << 31;
    const REFUSAL: u32 = 1 << 16;
    /// The most of either that is counted.
    const MOST: u32 = 0x7fff;
    pub(crate) const NEW: Self = Self(Self::UNPROVEN);
    pub(crate) const GOOD: Self = Self(0);

    /// Adds one of a kind, which counts in units; how many there are.
    fn add(&mut self, unit: u32) -> u32 {
        let count = |streak: u32| (streak / unit) & Self::MOST;
        self.0 += if count(self.0) < Self::MOST { unit } else { 0 };
        count(self.0)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ejections {
    count: u32,
    /// The present one lasts at least until then.
    until: Timestamp,
    ended: Timestamp,
    probed: bool,
}

impl Core {
    /// Sets a server's health; true when it changed.
    fn set_health(&mut self, server: ServerId, health: Health) -> bool {
        let state = &mut self.servers[server.index()];
        let before = core::mem::replace(&mut state.health, health);
        if before == health {
            return false;
        }
        state.failures = Streak::NEW;
        self.drop_holds(server);
        if before == Health::Ejected {
            self.ejection_timers.remove(0, server.0);
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
            // The others change with it where panic mode begins or ends.
            if (up_before == 0) != (self.groups[group].up == 0) {
                for member in 0..self.groups[group].servers.len() {
                    self.reopen(self.groups[group].servers[member]);
                }
            }
        }
        self.reopen(server);
        true
    }

    /// Opens or closes a server to new copies, as its health and that of its peers demand.
    fn reopen(&mut self, server: ServerId) {
        let health = self.servers[server.index()].health;
        let panics = || self.groups_of(server).any(|group| self.groups[group.index()].up == 0);
        let open = health == Health::Up || (health.may_panic() && panics());
        let state = &mut self.servers[server.index()];
        if state.is_open() == open {
            return;
        }
        let closed = self.openings.contains(server.0);
        state.set_open(open, closed);
        self.sort(server);
        let (from, to) = self.servers[server.index()].groups;
        for at in from..to {
            let group = &mut self.groups[self.memberships[at as usize].0.index()];
            if open {
                group.open += 1;
            } else {
                group.open -= 1;
                // A query that avoided the only server left may go there now.
                self.freed.extend_from_slice(&group.servers);
            }
        }
        if open {
            self.freed.push(server);
        }
    }

    /// Is a peer of the server known to do better, and may one more server of each of its groups go?
    fn may_eject(&self, server: ServerId) -> bool {
        let mut peer = false;
        for group in self.groups_of(server) {
            let group = &self.groups[group.index()];
            let ejected = self.limits.max_ejected * group.servers.len() as f64;
            let keep = group.servers.len() as u32 - ejected as u32;
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

impl<P: Pick, H: Hedge> Cell<P, H> {
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

    /// A query that a server failed was answered well by another, or can not be sent to another: is
    /// the first one at fault?
    pub(super) fn settle_blame(&mut self, query: QueryId, winner: Option<ServerId>) {
        let state = &mut self.core.queries[query.index()];
        let blame = core::mem::replace(&mut state.blame, Blame::Nothing);
        if let Blame::Server(server, why) = blame
            && winner != Some(server)
        {
            self.count_failure(server, why);
        }
    }

    /// Its copies run on: others may be inside of a good response, and they hold slots of a machine
    /// that may well be at work.
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
            self.core.ejection_timers.insert(0, until, server.0);
        }
    }

    /// A probe succeeded, or an operator says so. An ejection lasts as long as it has to.
    pub(super) fn server_up(&mut self, server: ServerId) {
        let ejections = &mut self.core.ejections[server.index()];
        ejections.probed = true;
        let ejected = self.core.servers[server.index()].health == Health::Ejected;
        if !ejected || ejections.until <= self.core.now {
            self.restore(server);
        }
    }

    fn restore(&mut self, server: ServerId) {
        if !self.core.set_health(server, Health::Up) {
            return;
        }
        self.core.ejections[server.index()].ended = self.core.now;
        self.core.begin_ramp(server);
        if H::BIASES {
            self.core.bias(server, false);
        }
        *self.core.out.next() = Action::Restore { server };
    }

    /// Ejections whose time is up end where a probe has succeeded.
    pub(super) fn end_ejections(&mut self) {
        while let Some((at, server)) = self.core.ejection_timers.first(0)
            && at <= self.core.now
        {
            self.core.ejection_timers.remove(0, server);
            if self.core.ejections[server as usize].probed {
                self.restore(ServerId(server));
            }
        }
    }

    pub(super) fn server_unhealthy(&mut self, server: ServerId, listens: bool) {
        match (self.core.servers[server.index()].health, listens) {
            (Health::Ejected, true) => self.core.ejections[server.index()].probed = false,
            (Health::Draining, _) => {}
            (_, true) => _ = self.core.set_health(server, Health::Unhealthy),
            (_, false) => _ = self.core.set_health(server, Health::Unreachable),
        }
    }

    pub(super) fn server_draining(&mut self, server: ServerId) {
        self.core.set_health(server, Health::Draining);
    }

    pub(super) fn server_down(&mut self, server: ServerId) {
        if self.core.set_health(server, Health::Down) {
            for slot in self.core.copies.on(server) {
                self.lose(slot);
            }
            // Its copies were lost in no order, and none may decide how many wait there when it is back.
            self.core.prefetch(server, 0);
        }
    }
}
