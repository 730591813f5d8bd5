//! What a good response of a server typically takes, and the slots that refused and failed copies keep until then.
//!
//! A server that refuses or fails at once is idle at once. If its slot were free at once, every pick, gate and hedge
//! that counts copies would prefer it to servers that do the work. So the server counts as busy for as long as it
//! would have been with a good response: a *hold*. By that, its share of the copies is that of a server that works,
//! whatever the policy is. Nothing is held where no other server of its groups could take the copies instead.
//!
//! Where the policy needs no books, times are kept from the first failure on: until a good response has ended after it,
//! nothing is held. That spares cells without failures 12 instructions per query.
//!
//! Settled: a server that has never sent a good response is taken for typical of its peers. Cost: O(1) per good end;
//! O(log holds) per failure, and O(servers of its groups) where the server has no good response yet.

use super::core::Core;
use crate::id::ServerId;
use crate::time::Timestamp;

impl Core {
    /// What a good response of a server takes, in ns: an average of those of late, or that of its peers before the
    /// first. 0 where no response is known.
    #[must_use]
    pub fn typical_ns(&self, server: ServerId) -> u64 {
        let own = self.servers[server.index()].typical_ns;
        if own > 0 {
            return own;
        }
        let peers = self.groups_of(server).flat_map(|group| &self.groups[group.index()].servers);
        let known = peers.map(|peer| self.servers[peer.index()].typical_ns).filter(|&ns| ns > 0);
        let (sum, count) =
            known.fold((0_u64, 0_u64), |(sum, count), ns| (sum.saturating_add(ns), count + 1));
        sum.checked_div(count).unwrap_or(0)
    }

    /// A copy on this server, which is released, was refused or has failed: its slot stays taken until a good
    /// response would have come.
    pub(super) fn hold(&mut self, server: ServerId, started: Timestamp) {
        if !self.has_failed {
            self.keep_times();
        }
        let until = started.after(self.typical_ns(server));
        let open = |group: &super::GroupState| group.open > 1;
        let may_go_elsewhere =
            self.groups_of(server).any(|group| open(&self.groups[group.index()]));
        if until > self.now && may_go_elsewhere {
            self.holds.add(server, until);
            self.servers[server.index()].hold();
            self.sort(server);
        }
    }

    /// The first copy of the cell has failed: from now on all ends of good responses are looked at.
    #[cold]
    fn keep_times(&mut self) {
        self.has_failed = true;
        self.servers.iter_mut().for_each(|server| server.tracked = true);
    }

    /// Frees the slots that have been held for long enough.
    pub(super) fn end_holds(&mut self) {
        while let Some((at, hold)) = self.holds.until.first(0)
            && at <= self.now
        {
            let server = self.holds.remove(hold);
            self.servers[server.index()].end_hold();
            self.sort(server);
            self.freed.push(server);
        }
    }

    /// A server is another than before: what was held for it is free.
    pub(super) fn drop_holds(&mut self, server: ServerId) {
        if self.servers[server.index()].held == 0 {
            return;
        }
        while let Some(hold) = self.holds.any_of(server) {
            self.holds.remove(hold);
            self.servers[server.index()].end_hold();
        }
        self.sort(server);
        self.freed.push(server);
    }
}
