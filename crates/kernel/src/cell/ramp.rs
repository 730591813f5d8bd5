//! The ramp of a server that returns: it begins with one copy more than it still holds, and each good response lets it hold one more,
//! so that what it may hold doubles with every round of responses, as in the slow start of TCP.
//!
//! Averages and scores of a server that has returned are those of all servers, or none: without a ramp a pick that ranks
//! by them sends it whatever arrives before its first response. Source: the slow start of TCP (RFC 5681 §3.1), of Envoy
//! and of HAProxy, by responses rather than by time. Cost: nothing while no server ramps, else O(1) per good end.
//!
//! Settled: a server that returns to a group of which no other server is up takes all copies at once.

use super::core::Core;
use crate::id::ServerId;

/// [`super::ServerState::ramp`] of a server that does not ramp.
pub(super) const DONE: u32 = u32::MAX;

impl Core {
    /// A server is up again.
    pub(super) fn begin_ramp(&mut self, server: ServerId) {
        // It is counted as up already.
        let alone = self.groups_of(server).any(|group| self.groups[group.index()].up == 1);
        let one_more = self.servers[server.index()].outstanding() + 1;
        self.set_ramp(server, if alone { DONE } else { one_more });
        self.freed.push(server);
    }

    /// A server has sent a good response.
    #[inline(always)]
    pub(super) fn climb(&mut self, server: ServerId) {
        if self.servers[server.index()].ramp != DONE {
            self.climb_further(server);
        }
    }

    #[cold]
    #[inline(never)]
    fn climb_further(&mut self, server: ServerId) {
        let state = &self.servers[server.index()];
        let ramp = state.ramp + 1;
        let is_done = ramp >= state.limit;
        self.set_ramp(server, if is_done { DONE } else { ramp });
    }

    /// The caller looks for queries that wait for the server.
    fn set_ramp(&mut self, server: ServerId, ramp: u32) {
        let (books, closed) = (self.keeps_books(server), self.is_closed(server));
        let state = &mut self.servers[server.index()];
        state.ramp = ramp;
        state.tracked = books || ramp != DONE;
        state.set_open(state.is_open(), closed);
        self.sort(server);
    }
}
