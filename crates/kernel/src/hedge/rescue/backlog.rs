//! Prefetch: copies that wait at their servers, and begin to age when those begin with them.
//!
//! A server begins with the copies that it holds in the order in which they were sent to it, and no event
//! tells when. But it is known from what ends: when a copy that the server executes does, the first one
//! that waits there begins. Where servers hold no more than their slots nothing waits, and nothing is kept.
//!
//! The age of a copy includes a round trip (`trip.rs`): it counts from when the copy was sent, or, if it waited, from a
//! round trip before its predecessor's response came.
//!
//! Cost: O(log N) per end of a copy of a server that holds N beyond its slots, O(N) where that copy waited.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Rescue;
use super::book::Book;
use super::lists::List;
use crate::cell::{CopyView, Core};
use crate::id::{CopyId, QueryId, ServerId};

#[derive(Clone, Debug, Default)]
pub(super) struct Backlog {
    /// By server, up to the last one at which a copy has waited: oldest first.
    queues: Vec<VecDeque<CopyId>>,
    waiting: usize,
}

impl Backlog {
    #[inline(always)]
    pub(super) fn len(&self, server: ServerId) -> usize {
        self.queues.get(server.index()).map_or(0, VecDeque::len)
    }

    /// A copy waits at its server: behind the older ones, whichever came first.
    fn add(&mut self, server: ServerId, copy: CopyId) {
        if self.queues.len() <= server.index() {
            self.queues.resize_with(server.index() + 1, VecDeque::new);
        }
        let queue = &mut self.queues[server.index()];
        let at = queue.partition_point(|&other| other < copy);
        debug_assert!(queue.get(at) != Some(&copy), "a copy waits once");
        queue.insert(at, copy);
        self.waiting += 1;
    }

    /// A copy of a server has ended: which one begins in its place?
    #[inline(always)]
    pub(super) fn ended(&mut self, server: ServerId, copy: CopyId) -> Option<CopyId> {
        // Mostly none waits anywhere.
        if self.waiting == 0 { None } else { self.next(server, copy) }
    }

    #[inline(never)]
    fn next(&mut self, server: ServerId, copy: CopyId) -> Option<CopyId> {
        let queue = self.queues.get_mut(server.index()).filter(|queue| !queue.is_empty())?;
        self.waiting -= 1;
        match queue.binary_search(&copy) {
            Ok(at) => {
                // It waited itself, and has left no slot.
                queue.remove(at);
                None
            }
            Err(_) => queue.pop_front(),
        }
    }
}

impl Rescue {
    /// Does a first copy that was just sent wait at its server? Then its query has no age yet.
    #[inline(always)]
    pub(super) fn waits(&mut self, core: &mut Core, query: QueryId) -> bool {
        let Some(first) = core.copies_of(query).next() else { return false };
        // Of several copies that an event sends to a server, the newest comes first.
        let waits = match &mut self.line {
            Some(line) => line.add(first.server, first.id, self.learned.slots),
            None => core.beyond_slots(first.server) as usize > self.backlog.len(first.server),
        };
        if waits {
            if let Some(book) = self.books.get_mut(query.index()) {
                *book = Book::NONE;
            }
            self.wait(core, first.server, first.id);
        }
        waits
    }

    /// A copy waits at its server: one that is only tried there makes room, as for queries that wait in the cell.
    #[inline(never)]
    pub(super) fn wait(&mut self, core: &mut Core, server: ServerId, copy: CopyId) {
        if self.line.is_none() {
            self.backlog.add(server, copy);
        }
        if !self.can_stop(core) || self.lists.are_empty() {
            return;
        }
        let newer = |query| core.copies_of(query).next().filter(|newer| newer.server == server);
        let of = |group| self.lists.first(List::Pairs, group, |query| newer(query).is_some());
        let Some((_, query)) = core.groups_of(server).filter_map(of).min() else { return };
        let tried = newer(query).expect("just found");
        self.make_room(core, query, tried.id);
    }

    /// A copy that waited at its server begins there, and it, or its query, has an age.
    #[inline(never)]
    pub(super) fn begins(&mut self, core: &mut Core, copy: CopyId) {
        let Some(query) = core.query_of(copy) else { return };
        let begun = core.copies_of(query).find(|other| other.id == copy && !other.stopping);
        let Some(CopyView { started: sent, .. }) = begun else { return };
        let since = self.since(core, sent);
        let second = self.books.get_mut(query.index()).and_then(|book| book.second.as_mut());
        if let Some(second) = second.filter(|second| second.id == copy) {
            second.started = since;
            self.await_end(core, query);
        } else if self.begin(core, query, since) {
            self.enlist(core, query);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(serial: u64) -> CopyId {
        // Slots are used again, in whatever order.
        CopyId { serial, slot: (serial * 7 % 5) as u32 }
    }

    #[test]
    fn where_a_copy_ends_that_executes_the_oldest_that_waits_begins() {
        let mut backlog = Backlog::default();
        let [busy, idle] = [ServerId(3), ServerId(1)];
        (11..14).for_each(|serial| backlog.add(busy, copy(serial)));
        assert_eq!((backlog.len(busy), backlog.len(idle)), (3, 0));
        assert_eq!(backlog.ended(idle, copy(8)), None, "nothing waits there");
        assert_eq!(backlog.ended(ServerId(9), copy(9)), None, "nor has it ever");
        assert_eq!(backlog.ended(busy, copy(10)), Some(copy(11)));
        assert_eq!(backlog.ended(busy, copy(13)), None, "it waited itself");
        assert_eq!(backlog.ended(busy, copy(11)), Some(copy(12)));
        assert_eq!(backlog.ended(busy, copy(12)), None);
        assert_eq!(backlog.len(busy), 0);
    }

    #[test]
    fn copies_wait_in_the_order_in_which_they_were_sent() {
        let mut backlog = Backlog::default();
        let server = ServerId(0);
        [7, 9, 4, 8].into_iter().for_each(|serial| backlog.add(server, copy(serial)));
        let begun = [1, 2, 4, 3].map(|serial| backlog.ended(server, copy(serial)));
        assert_eq!(begun, [4, 7, 8, 9].map(|serial| Some(copy(serial))));
    }

    #[test]
    fn where_nothing_ever_waits_nothing_is_kept() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.ended(ServerId(0), copy(0)), None);
        assert_eq!(backlog.queues.capacity(), 0);
    }
}
