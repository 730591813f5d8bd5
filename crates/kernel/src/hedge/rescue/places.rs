//! Rescue without slots: estimates which copies of a server are executing if the server's number of
//! slots is unknown.
//!
//! With a push gate, copies wait at their servers, and the age of a waiting copy is not evidence
//! that it is stuck. If a server executes its copies in the order in which they were sent, the ŝ
//! oldest are executing, and responses come only from these places. So ŝ is learned from the places
//! of copies that respond: at most 0.5 % of the responses come from places beyond ŝ. The cell
//! cannot see the copies of other senders. Those copies make the learned ŝ smaller. A copy that
//! counts as executing may then still be waiting, but for a smaller part of the time.
//!
//! A copy that moves up to one of the ŝ oldest places counts as begun, and its age starts. Until ŝ
//! is known, ages start when copies are sent.
//!
//! Cost: O(n) per end of a copy, for n copies of the cell at the server.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Rescue;
use super::learned::Record;
use super::trip::RECORDED;
use crate::cell::Core;
use crate::id::{CopyId, ServerId};

/// The number of places that are counted separately. The last of them includes all places behind
/// it.
const PLACES: usize = 64;

/// The number of responses for which a place is remembered, and the number that is needed before ŝ
/// is known.
const MEMORY: f32 = 2_048.0;
const FEW: f32 = 100.0;

/// The maximum share of responses that come from beyond ŝ.
const BEYOND: f32 = 0.005;

/// The frequency of responses from each place.
#[derive(Clone, Debug)]
pub(super) struct Places {
    weights: [f32; PLACES],
    total: f32,
}

impl Default for Places {
    fn default() -> Self {
        Self { weights: [0.0; PLACES], total: 0.0 }
    }
}

impl Places {
    /// Counts a response from a server that held `older` older copies of the cell.
    pub(super) fn add(&mut self, older: u32) {
        let kept = 1.0 - 1.0 / MEMORY;
        self.weights.iter_mut().for_each(|weight| *weight *= kept);
        self.total = self.total * kept + 1.0;
        self.weights[(older as usize).min(PLACES - 1)] += 1.0;
    }

    /// Whether there are enough responses to estimate ŝ.
    pub(super) fn is_known(&self) -> bool {
        self.total >= FEW
    }

    /// The estimate ŝ, which is at least 1. `u32::MAX` if ŝ is unknown or at least [`PLACES`].
    pub(super) fn slots(&self) -> u32 {
        let mut beyond = 0.0;
        let last = self.weights.iter().rposition(|weight| {
            beyond += weight;
            beyond > BEYOND * self.total
        });
        match last {
            Some(place) if self.is_known() && place + 1 < PLACES => place as u32 + 1,
            _ => u32::MAX,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Held {
    copy: CopyId,
    begun: bool,
}

/// The copies of a cell at its servers, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    by_server: Vec<VecDeque<Held>>,
}

impl Line {
    pub(super) fn new(servers: usize) -> Self {
        Self { by_server: (0..servers).map(|_| VecDeque::new()).collect() }
    }

    pub(super) fn len(&self, server: ServerId) -> u32 {
        self.by_server[server.index()].len() as u32
    }

    /// Whether copies wait at the server.
    pub(super) fn is_crowded(&self, server: ServerId) -> bool {
        self.by_server[server.index()].back().is_some_and(|last| !last.begun)
    }

    /// Adds a copy that is sent to a server with this number of slots. Returns whether it waits.
    pub(super) fn add(&mut self, server: ServerId, copy: CopyId, slots: u32) -> bool {
        let queue = &mut self.by_server[server.index()];
        // If an event sends several copies to one server, the hedge may see the newest first.
        let at = queue.partition_point(|held| held.copy < copy);
        let begun = at < slots as usize;
        queue.insert(at, Held { copy, begun });
        !begun
    }

    /// The number of older copies that the server holds. `None` if it does not hold the copy.
    pub(super) fn older(&self, server: ServerId, copy: CopyId) -> Option<u32> {
        let queue = &self.by_server[server.index()];
        queue.binary_search_by_key(&copy, |held| held.copy).ok().map(|at| at as u32)
    }

    /// Removes a copy that has ended.
    pub(super) fn remove(&mut self, server: ServerId, copy: CopyId) {
        let queue = &mut self.by_server[server.index()];
        if let Ok(at) = queue.binary_search_by_key(&copy, |held| held.copy) {
            queue.remove(at);
        }
    }

    /// Returns a copy that begins now at a server with this number of slots, if there is one.
    pub(super) fn begins(&mut self, server: ServerId, slots: u32) -> Option<CopyId> {
        let queue = &mut self.by_server[server.index()];
        let at_work = queue.iter_mut().take(slots as usize);
        let next = at_work.rev().take_while(|held| !held.begun).last()?;
        next.begun = true;
        Some(next.copy)
    }
}

impl Rescue {
    /// Whether a server would execute another copy immediately, as far as the cell can see.
    pub(super) fn is_idle(&self, core: &Core, server: ServerId) -> bool {
        match &self.line {
            Some(line) => line.len(server) < self.learned.slots,
            None => core.has_idle_slot(server),
        }
    }

    /// Whether copies wait at a server.
    pub(super) fn is_crowded(&self, server: ServerId) -> bool {
        match &self.line {
            Some(line) => line.is_crowded(server),
            None => self.backlog.len(server) > 0,
        }
    }

    /// Records the place of a copy that responded, which shows how many copies the server executes.
    pub(super) fn record_place(&mut self, copy: CopyId, server: ServerId) {
        let Some(line) = &self.line else { return };
        let all = self.learned.slots == u32::MAX;
        if (all || self.responses.is_multiple_of(RECORDED))
            && let Some(older) = line.older(server, copy)
        {
            self.records.push(Record::Place { older });
        }
    }

    /// Handles the end of a copy: the copies behind it move up, and some of them begin.
    pub(super) fn move_up(&mut self, core: &mut Core, server: ServerId, copy: CopyId) {
        let Some(line) = &mut self.line else { return };
        line.remove(server, copy);
        while let Some(next) =
            self.line.as_mut().and_then(|line| line.begins(server, self.learned.slots))
        {
            self.begins(core, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(serial: u64) -> CopyId {
        CopyId { serial, slot: (serial * 7 % 5) as u32 }
    }

    #[test]
    fn slots_are_the_places_that_respond() {
        let mut places = Places::default();
        assert_eq!(places.slots(), u32::MAX, "unknown");
        (0..1_000).for_each(|i| places.add(i % 4));
        assert_eq!(places.slots(), 4);
        // The result does not change if a few copies overtake others.
        (0..3_000).for_each(|i| places.add(if i % 400 == 0 { 9 } else { i % 4 }));
        assert_eq!(places.slots(), 4);
        (0..8_000).for_each(|i| places.add(i % 64));
        assert_eq!(places.slots(), u32::MAX, "more than are counted");
        (0..20_000).for_each(|_| places.add(0));
        assert_eq!(places.slots(), 1, "earlier observations fade");
    }

    #[test]
    fn copies_begin_in_the_order_in_which_they_were_sent() {
        let (mut line, server) = (Line::new(2), ServerId(1));
        let waits: Vec<bool> = (1..=5).map(|serial| line.add(server, copy(serial), 2)).collect();
        assert_eq!(waits, [false, false, true, true, true]);
        assert!(line.is_crowded(server) && !line.is_crowded(ServerId(0)));
        assert_eq!((line.older(server, copy(4)), line.older(server, copy(9))), (Some(3), None));
        assert_eq!(line.begins(server, 2), None);
        line.remove(server, copy(1));
        assert_eq!(line.begins(server, 2), Some(copy(3)));
        assert_eq!(line.begins(server, 2), None);
        // The server has more slots than estimated.
        assert_eq!(line.begins(server, 4), Some(copy(4)));
        assert_eq!(line.begins(server, 4), Some(copy(5)));
        assert!(!line.is_crowded(server));
        assert_eq!(line.len(server), 4);
    }
}
