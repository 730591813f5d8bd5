//! Prefetch: tracks copies that wait at their servers. Such a copy begins to age when its server
//! begins to execute it.
//!
//! A server executes its copies in the order in which they were sent to it, and no event reports
//! when it begins one. The cell infers this from the ends of copies: when a copy that the server
//! executes ends, the first one that waits there begins. If servers hold no more copies than they
//! have slots, nothing waits and nothing is stored.
//!
//! The age of a copy includes a round trip (`trip.rs`). The age is measured from the time at which
//! the copy was sent. If the copy waited, the age is measured from one round trip before the
//! response of its predecessor.
//!
//! Cost: O(log N) per copy that ends, or O(N) if it was still waiting, for N copies beyond the
//! server's slots.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Rescue;
use super::book::Book;
use super::lists::List;
use crate::cell::{CopyView, Core};
use crate::id::{CopyId, QueryId, ServerId};

#[derive(Clone, Debug, Default)]
pub(super) struct Backlog {
    /// The waiting copies by server, oldest first, up to the last server at which a copy has
    /// waited.
    queues: Vec<VecDeque<CopyId>>,
    waiting: usize,
}

impl Backlog {
    #[inline(always)]
    pub(super) fn len(&self, server: ServerId) -> usize {
        self.queues.get(server.index()).map_or(0, VecDeque::len)
    }

    /// Adds a copy that waits at its server. It is placed behind all older copies, whatever the
    /// order in which copies are added.
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

    /// Handles the end of a copy. Returns the copy that begins in its place.
    #[inline(always)]
    pub(super) fn ended(&mut self, server: ServerId, copy: CopyId) -> Option<CopyId> {
        // Usually no copy waits anywhere.
        if self.waiting == 0 { None } else { self.next(server, copy) }
    }

    #[inline(never)]
    fn next(&mut self, server: ServerId, copy: CopyId) -> Option<CopyId> {
        let queue = self.queues.get_mut(server.index()).filter(|queue| !queue.is_empty())?;
        self.waiting -= 1;
        match queue.binary_search(&copy) {
            Ok(at) => {
                // The ended copy was itself waiting, so it frees no slot.
                queue.remove(at);
                None
            }
            Err(_) => queue.pop_front(),
        }
    }
}

impl Rescue {
    /// Whether a first copy that was just sent waits at its server. If it does, its query has no
    /// age yet.
    #[inline(always)]
    pub(super) fn waits(&mut self, core: &mut Core, query: QueryId) -> bool {
        let Some(first) = core.copies_of(query).next() else { return false };
        // If an event sends several copies to one server, the newest is seen first.
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

    /// Handles a copy that waits at its server. A pair's second copy at that server makes room for
    /// it, as it does for queries that wait in the cell.
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

    /// Handles the beginning of a copy that waited at its server: from now on, the copy or its
    /// query has an age.
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
        // Slots are reused in any order.
        CopyId { serial, slot: (serial * 7 % 5) as u32 }
    }

    #[test]
    fn the_oldest_waiting_copy_begins_when_an_executing_one_ends() {
        let mut backlog = Backlog::default();
        let [busy, idle] = [ServerId(3), ServerId(1)];
        (11..14).for_each(|serial| backlog.add(busy, copy(serial)));
        assert_eq!((backlog.len(busy), backlog.len(idle)), (3, 0));
        assert_eq!(backlog.ended(idle, copy(8)), None, "no copy waits there");
        assert_eq!(backlog.ended(ServerId(9), copy(9)), None, "and no copy ever waited there");
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
    fn nothing_is_stored_if_nothing_ever_waits() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.ended(ServerId(0), copy(0)), None);
        assert_eq!(backlog.queues.capacity(), 0);
    }
}
