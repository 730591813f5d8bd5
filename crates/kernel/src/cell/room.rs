//! The room and the load of servers, as hedges read and change them.

use super::core::Core;
use crate::id::{GroupId, ServerId};
use crate::servers::ServerState;

impl Core {
    pub(crate) fn memberships_of(&self, server: ServerId) -> &[(GroupId, u32)] {
        let (from, to) = self.servers[server.index()].groups;
        &self.memberships[from as usize..to as usize]
    }

    /// Returns the groups that a server serves.
    pub fn groups_of(&self, server: ServerId) -> impl Iterator<Item = GroupId> + '_ {
        self.memberships_of(server).iter().map(|&(group, _)| group)
    }

    /// Returns the servers of a group, in the order of the topology, with absent places.
    #[must_use]
    pub fn servers_of(&self, group: GroupId) -> &[ServerId] {
        &self.groups[group.index()].servers
    }

    /// Whether the server has room for one more copy.
    #[inline(always)]
    #[must_use]
    pub fn has_room(&self, server: ServerId) -> bool {
        self.servers[server.index()].has_room()
    }

    /// Whether the server may get copies, either now or after some of its copies have ended. False
    /// while the server is out of service or closed.
    #[must_use]
    pub fn takes_copies(&self, server: ServerId) -> bool {
        self.servers[server.index()].full_at > 0
    }

    /// Whether the server would start a copy immediately, rather than queue it.
    #[inline(always)]
    #[must_use]
    pub fn has_idle_slot(&self, server: ServerId) -> bool {
        let state = &self.servers[server.index()];
        state.has_room() && state.outstanding() < state.slots
    }

    /// Sets or removes the load bias of a server. While it is set, picks count one more copy on the
    /// server. Has no effect unless the hedge declares that it biases servers
    /// ([`crate::Conduct::biases`]).
    pub fn bias(&mut self, server: ServerId, biased: bool) {
        let state = &mut self.servers[server.index()];
        if state.biased != biased && self.bias > 0 {
            state.bias(self.bias, biased);
            self.sort(server);
        }
    }

    /// Whether the server can take one more copy that does not count as load. Such copies fill at
    /// most half of its gate, so they never block other copies.
    #[must_use]
    pub fn takes_light(&self, server: ServerId) -> bool {
        let state = &self.servers[server.index()];
        state.load_bias > 0 && state.light < state.gate() / 2 && state.has_room()
    }

    /// Excludes a copy from the load of its server, as seen by picks. If `more` is false, reverses
    /// this after the copy has ended.
    pub(crate) fn lighten(&mut self, server: ServerId, more: bool) {
        self.servers[server.index()].lighten(more);
        self.sort(server);
    }

    /// Returns the number of copies that a server executes at the same time.
    #[inline(always)]
    #[must_use]
    pub fn slots(&self, server: ServerId) -> u32 {
        self.servers[server.index()].slots
    }

    /// Returns the number of copies that wait on a server, beyond its slots.
    #[inline(always)]
    #[must_use]
    pub fn beyond_slots(&self, server: ServerId) -> u32 {
        let state = &self.servers[server.index()];
        (state.outstanding() - state.held).saturating_sub(state.slots)
    }

    /// Updates the order of the server's large groups after its level has changed.
    #[inline(always)]
    pub(crate) fn sort(&mut self, server: ServerId) {
        if self.ordered {
            self.sort_in_groups(server);
        }
    }

    #[inline(never)]
    fn sort_in_groups(&mut self, server: ServerId) {
        let ServerState { level, groups: (from, to), .. } = self.servers[server.index()];
        for &(group, member) in &self.memberships[from as usize..to as usize] {
            if let Some(order) = &mut self.groups[group.index()].order {
                order.set(member, level);
            }
        }
    }
}
