//! The typical time of a good response from each server, and the slots that refused and failed
//! copies keep for that time.
//!
//! A server that refuses or fails a copy immediately is idle again right away. If its slot were
//! freed right away, every pick, gate and hedge that counts copies would prefer it to servers that
//! do the work. So the slot remains occupied for as long as a good response would have kept it
//! busy. This is called a *hold*. With holds, the server gets the same share of the copies as a
//! working server, whatever the policy is. No slot is held if the server's groups have no other
//! server that could take the copies.
//!
//! If the policy does not need response times, they are recorded only after the first failure in
//! the cell. After that, nothing is held until a good response has ended. This saves 12
//! instructions per query in cells without failures.
//!
//! Choice: a server that has never sent a good response gets the average of its peers. Cost: O(1)
//! per good response; O(log holds) per failure, and O(servers of its groups) if the server has not
//! sent a good response yet.

use super::core::Core;
use crate::id::ServerId;
use crate::servers::GroupState;
use crate::time::Timestamp;

impl Core {
    /// Returns the typical time that a good response of a server takes, in ns. This is the server's
    /// moving average, or the average of its peers before its first good response. It is 0 if there
    /// is neither.
    #[must_use]
    pub fn typical_ns(&self, server: ServerId) -> u64 {
        let own = self.servers[server.index()].typical_ns;
        if own > 0 {
            return own;
        }
        let peers = self.groups_of(server).flat_map(|group| &self.groups[group.index()].servers);
        let members = peers.filter(|&&peer| self.is_member(peer));
        let known = members.map(|peer| self.servers[peer.index()].typical_ns).filter(|&ns| ns > 0);
        let (sum, count) =
            known.fold((0_u64, 0_u64), |(sum, count), ns| (sum.saturating_add(ns), count + 1));
        sum.checked_div(count).unwrap_or(0)
    }

    /// Holds a slot for a released copy that was refused or has failed, until a good response would
    /// have arrived.
    pub(super) fn hold(&mut self, server: ServerId, started: Timestamp) {
        if !self.has_failed {
            self.keep_times();
        }
        let until = started.after(self.typical_ns(server));
        let open = |group: &GroupState| group.open > 1;
        let may_go_elsewhere =
            self.groups_of(server).any(|group| open(&self.groups[group.index()]));
        if until > self.now && may_go_elsewhere {
            self.holds.add(server, until);
            self.servers[server.index()].hold();
            self.sort(server);
        }
    }

    /// Records the times of all good responses from now on, because a copy of the cell has failed
    /// for the first time.
    #[cold]
    fn keep_times(&mut self) {
        self.has_failed = true;
        self.servers.iter_mut().for_each(|server| server.tracked = true);
    }

    /// Frees the slots whose hold is over.
    pub(super) fn end_holds(&mut self) {
        while let Some((at, hold)) = self.holds.until.first(0)
            && at <= self.now
        {
            let server = self.holds.remove(hold);
            self.servers[server.index()].end_hold();
            self.sort(server);
            self.todo.freed.push(server);
        }
    }

    /// Frees the slots held for a server whose health has changed.
    pub(super) fn drop_holds(&mut self, server: ServerId) {
        if self.servers[server.index()].held == 0 {
            return;
        }
        while let Some(hold) = self.holds.any_of(server) {
            self.holds.remove(hold);
            self.servers[server.index()].end_hold();
        }
        self.sort(server);
        self.todo.freed.push(server);
    }
}
