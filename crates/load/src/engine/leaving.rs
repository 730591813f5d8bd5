//! Connections that a server is leaving: they take no further request, but some are still on them
//! (RFC 9113 §6.8).
//!
//! A user's client opens another one at once, and so does this one: a leaving connection moves out of the
//! place that the plan gives it, and ends when its last request has. There are as many of them at most as
//! the plan has connections; beyond that they stay where they are, and requests wait.
//!
//! Cost: O(requests on it) when it moves.

use super::Engine;

impl Engine {
    /// Makes room for another connection in the place of this one, if the server is leaving it.
    pub(super) fn move_out(&mut self, id: usize) {
        if !self.is_leaving(id) {
            return;
        }
        let Some(place) = self.other_place() else { return };
        self.connections.swap(id, place);
        // It is closed, and nobody knows it yet.
        self.connections[id].moved(id, &self.poller);
        self.connections[place].moved(place, &self.poller);
        for index in self.connections[place].requests() {
            if let Some((_, at, _)) = self.flying.get_mut(&index) {
                *at = place;
            }
        }
    }

    /// True for a connection that has moved out.
    pub(super) fn has_moved_out(&self, id: usize) -> bool {
        id >= self.task.connections
    }

    /// Its place can be another's once it has ended.
    pub(super) fn give_up_place(&mut self, id: usize) {
        if self.connections[id].is_closed() && !self.vacant.contains(&id) {
            self.vacant.push(id);
        }
    }

    fn is_leaving(&self, id: usize) -> bool {
        !self.has_moved_out(id) && self.connections[id].is_leaving()
    }

    fn other_place(&mut self) -> Option<usize> {
        if let Some(vacant) = self.vacant.pop() {
            return Some(vacant);
        }
        let place = self.connections.len();
        if place >= 2 * self.task.connections {
            return None;
        }
        self.connections.push(super::Connection::new(place));
        Some(place)
    }
}
