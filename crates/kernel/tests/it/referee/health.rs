//! The health of servers, and checks of ejections and returns.

use curtail_kernel::{CopyId, EjectReason, Fault, GroupId, NEVER_NS, Outcome, ServerId, Timestamp};

use super::Model;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Up,
    Ejected,
    Unhealthy,
    Unreachable,
    Draining,
    Down,
    Absent,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    /// The number of failed copies, whether or not they are evidence against the server. Some
    /// failures do not count until another server has responded. By then, this server may have sent
    /// good responses.
    failures: u32,
    /// The number of refused copies, counted in the same way.
    refusals: u32,
    /// Whether it has sent a good response since its health changed.
    good: bool,
    /// The number of ejections in a row, the time at which the current one may end, and the time at
    /// which the last one ended.
    ejections: u32,
    pub until: Timestamp,
    ended: Timestamp,
    pub(super) probed: bool,
}

impl Model {
    pub(crate) fn is_up(&self, server: ServerId) -> bool {
        self.up[server.index()] == Health::Up
    }

    /// Whether the server may get copies: it is up, or all servers of one of its groups are bad.
    pub(crate) fn is_open(&self, server: ServerId) -> bool {
        let bad = matches!(self.up[server.index()], Health::Ejected | Health::Unhealthy);
        let mine = self.topology.groups.iter().filter(|group| group.contains(&server));
        let mut panics = mine.filter(|group| !group.iter().any(|&other| self.is_up(other)));
        self.is_up(server) || (bad && panics.next().is_some())
    }

    pub(super) fn set_health(&mut self, server: ServerId, health: Health) {
        if std::mem::replace(&mut self.up[server.index()], health) != health {
            let standing = &mut self.standing[server.index()];
            standing.good = false;
        }
    }

    pub(super) fn fails_probes(&mut self, server: ServerId, listens: bool) {
        match self.up[server.index()] {
            Health::Draining | Health::Absent => {}
            Health::Ejected if listens => self.standing[server.index()].probed = false,
            _ if listens => self.set_health(server, Health::Unhealthy),
            _ => self.set_health(server, Health::Unreachable),
        }
    }

    pub(super) fn is_member(&self, server: ServerId) -> bool {
        self.up[server.index()] != Health::Absent
    }

    /// The number of servers of a group, without absent places.
    pub(super) fn members(&self, group: &[ServerId]) -> u32 {
        group.iter().filter(|&&server| self.is_member(server)).count() as u32
    }

    /// Handles a server that takes a place, if the place is absent and holds no copies. Until the
    /// cell restores the server, it counts as down.
    pub(super) fn join(&mut self, server: ServerId) {
        let at = server.index();
        if self.is_member(server) || self.outstanding(server) > 0 {
            return;
        }
        self.joining = Some(server);
        self.up[at] = Health::Down;
        self.standing[at] = Standing { probed: true, ..Standing::default() };
        self.closed[at] = None;
        self.buckets[at] = (self.limits.tuning.burst, false);
        self.prefetch[at] = 0;
        self.overtaken[at] = false;
        self.beaten.remove(&server);
        self.faults[at].clear();
        for query in self.queries.values_mut() {
            query.avoid = query.avoid.filter(|&failed| failed != server);
        }
    }

    pub(super) fn lose(&mut self, server: ServerId) {
        if self.is_member(server) {
            self.set_health(server, Health::Down);
        }
        let on = self.copies.iter().filter(|(_, c)| c.server == server);
        let lost: Vec<CopyId> = on.map(|(id, _)| *id).collect();
        for copy in lost {
            self.copy_failed(copy);
            self.remove(copy);
            self.lost.insert(copy);
        }
        self.prefetch[server.index()] = 0;
    }

    /// Checks a copy that is lost. Either its server went down, or the copy stayed silent after it
    /// was cancelled or its query ended.
    pub(super) fn check_lost(&mut self, copy: CopyId) {
        if self.lost.remove(&copy) {
            return;
        }
        assert_ne!(
            self.limits.cancel_timeout_ns, NEVER_NS,
            "without a cancel timeout no copy is lost"
        );
        self.end_of_copy(copy, Outcome::Failed(Fault::Reset));
        let state = &self.copies[&copy];
        assert!(state.stopping || state.query.is_none(), "its query is still running");
        self.copy_failed(copy);
        self.remove(copy);
        self.begin();
    }

    pub(super) fn eject(&mut self, server: ServerId, why: EjectReason) {
        assert!(self.is_up(server), "ejected twice");
        let limits = self.limits;
        let Standing { failures, refusals, .. } = self.standing[server.index()];
        let (count, least) = match why {
            EjectReason::Refused => (refusals, limits.eject_after_refusals),
            _ => (failures, limits.eject_after),
        };
        assert!(least > 0 && count >= least, "{count} of {why:?}");
        let mine = self.topology.groups.iter().filter(|group| group.contains(&server));
        let mut better = false;
        for group in mine {
            let up = group.iter().filter(|&&other| self.is_up(other)).count() - 1;
            let share = (1.0 - limits.max_ejected) * f64::from(self.members(group));
            assert!(up >= 1 && up as f64 >= share, "too few stay");
            let good = |&&other: &&ServerId| self.is_up(other) && self.standing[other.index()].good;
            better |= group.iter().any(|other| good(&other));
        }
        assert!(better, "no peer is known to be better");
        let standing = &mut self.standing[server.index()];
        if self.now.since(standing.ended) >= limits.ejection_max_ns {
            standing.ejections = 0;
        }
        let span = limits.ejection_ns << standing.ejections.min(20);
        standing.ejections += 1;
        standing.until = self.now.after(span.min(limits.ejection_max_ns));
        standing.probed = false;
        self.set_health(server, Health::Ejected);
    }

    pub(super) fn restore(&mut self, server: ServerId) {
        let standing = self.standing[server.index()];
        assert!(standing.probed, "no probe succeeded");
        assert!(self.is_member(server), "an absent place is not restored");
        let ejected = self.up[server.index()] == Health::Ejected;
        let is_over = standing.until <= self.now;
        let half = self.limits.queue.div_ceil(2).max(1) as usize;
        let waiting = |group: u32| self.waiting(GroupId(group)).len();
        let mut mine = (0..).zip(&self.topology.groups).filter(|(_, of)| of.contains(&server));
        let is_needed = mine.any(|(group, _)| waiting(group) >= half);
        assert!(!ejected || is_over || is_needed, "the back-off is not over");
        let standing = &mut self.standing[server.index()];
        standing.ended = self.now;
        assert!(!self.is_up(server), "restored twice");
        self.set_health(server, Health::Up);
        self.begin_ramp(server);
    }

    /// Updates a server's health when a copy has ended, or its response has begun.
    pub(super) fn end_of_copy(&mut self, copy: CopyId, outcome: Outcome) {
        let Some(state) = self.copies.get(&copy) else { return };
        let standing = &mut self.standing[state.server.index()];
        match outcome {
            _ if state.failed => {}
            Outcome::Good | Outcome::Request => standing.good = true,
            Outcome::Local | Outcome::OverLimit => {}
            // An upper bound: failures of a request that fails everywhere do not count.
            Outcome::Refused => standing.refusals += 1,
            Outcome::Failed(_) => standing.failures += 1,
        }
    }
}
