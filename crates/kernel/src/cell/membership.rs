//! Servers that leave a cell and join it while it runs.
//!
//! The topology of a cell is a fixed number of places for servers. All of them are taken at first. A
//! server that leaves makes its place *absent*: the place gets no new copies and counts in no
//! fraction of its groups, so a group may be left without any member. The copies of the server
//! continue and keep their slots. When the last of them has ended, another server may take the
//! place. It has a clean record, because nothing that the cell knows is about this server: not even
//! a query that failed on the previous server avoids it. Source: the endpoint updates of Envoy and
//! Finagle. Cost: O(groups of the server × their servers), plus O(queries of the cell) when a server
//! joins. Nothing is allocated.
//!
//! Choices:
//! - Until a server joins, an absent place ignores its probes and the orders of an operator. If it
//!   goes down, its copies are lost, so that the place becomes free.
//! - The place keeps the limit that was set for it ([`crate::Event::Limit`]). A pause that the
//!   previous server asked for ends, and so does a time until which the driver closed the server.

use core::ops::DerefMut;

use super::Cell;
use super::copies::Blame;
use super::core::Core;
use crate::balance::Pick;
use crate::descriptor::Compiled;
use crate::hedge::Hedge;
use crate::id::{GroupId, NONE, ServerId};
use crate::servers::{Ejections, Health};
use crate::time::Timestamp;

impl Core {
    /// Returns the number of servers of a group, without its absent places.
    #[must_use]
    pub fn members(&self, group: GroupId) -> u32 {
        self.groups[group.index()].members
    }

    pub(crate) fn is_member(&self, server: ServerId) -> bool {
        self.servers[server.index()].health != Health::Absent
    }

    /// Clears the record of an absent place that holds no copies.
    fn clear_place(&mut self, server: ServerId) {
        self.prefetch(server, 0);
        self.servers[server.index()].typical_ns = 0;
        self.ejections[server.index()] = Ejections::default();
        if let Some(rates) = &mut self.rates {
            rates.restart(server, self.now);
        }
        self.close_until(server, Timestamp::default());
        for query in &mut self.queries {
            if matches!(query.blame, Blame::Server(blamed, _) if blamed == server) {
                query.blame = Blame::Request;
            }
            if let Some((_, failed)) = &mut query.failed
                && *failed == server
            {
                *failed = ServerId(NONE);
            }
        }
    }
}

impl<P, H> Cell<P, H>
where
    P: DerefMut<Target: Pick + Compiled>,
    H: DerefMut<Target: Hedge<P::Target> + Compiled>,
{
    pub(super) fn server_left(&mut self, server: ServerId) {
        if self.core.set_health(server, Health::Absent) {
            self.forget(server);
        }
    }

    pub(super) fn server_joined(&mut self, server: ServerId) {
        let state = &self.core.servers[server.index()];
        if self.core.is_member(server) || state.outstanding() > state.held {
            return;
        }
        self.core.clear_place(server);
        self.restore(server);
        self.forget(server);
    }

    fn forget(&mut self, server: ServerId) {
        self.pick.forget(server);
        self.hedge.forget(&self.core, server);
    }
}
