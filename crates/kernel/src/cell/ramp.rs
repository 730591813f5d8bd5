//! The ramp of a server that has returned. At first, it may hold one more copy than it already
//! holds, and each good response adds one. So its limit doubles with every round of responses, as
//! in the slow start of TCP.
//!
//! A server that has just returned has no averages or scores of its own: it gets those of all
//! servers, or none. Without a ramp, a pick that ranks servers by averages or scores could send
//! every query to the server until its first response. Source: slow start in TCP (RFC 5681 §3.1),
//! Envoy and HAProxy, but driven by responses rather than by time. Cost: nothing while no server is
//! in its ramp, otherwise O(1) per good response.
//!
//! Choice: a server has no ramp if one of its groups has no other server that is up.

use super::core::Core;
use crate::id::ServerId;
use crate::servers::NO_RAMP;

impl Core {
    /// Starts the ramp of a server that is up again.
    pub(super) fn begin_ramp(&mut self, server: ServerId) {
        // The server already counts as up.
        let alone = self.groups_of(server).any(|group| self.groups[group.index()].up == 1);
        let one_more = self.servers[server.index()].outstanding() + 1;
        self.set_ramp(server, if alone { NO_RAMP } else { one_more });
        self.todo.freed.push(server);
    }

    /// Raises the limit of a server in its ramp after a good response.
    #[inline(always)]
    pub(super) fn climb(&mut self, server: ServerId) {
        if self.servers[server.index()].ramp != NO_RAMP {
            self.climb_further(server);
        }
    }

    #[cold]
    #[inline(never)]
    fn climb_further(&mut self, server: ServerId) {
        let state = &self.servers[server.index()];
        let ramp = state.ramp + 1;
        let is_done = ramp >= state.limit;
        self.set_ramp(server, if is_done { NO_RAMP } else { ramp });
    }

    /// Sets the limit of the ramp. The caller looks for queries that wait for the server.
    fn set_ramp(&mut self, server: ServerId, ramp: u32) {
        let (books, closed) = (self.keeps_books(server), self.is_closed(server));
        let state = &mut self.servers[server.index()];
        state.ramp = ramp;
        state.tracked = books || ramp != NO_RAMP;
        state.set_open(state.is_open(), closed);
        self.sort(server);
    }
}
