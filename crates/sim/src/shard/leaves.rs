//! The servers of a shard: slots, and before them a queue, first come first served.
//!
//! A *place* is a slot of a server; server s with c slots has the places s·c to s·c + c − 1.
//! Cost: O(places) for up to 16 of them, else O(log places), per copy.

use std::collections::VecDeque;

use curtail_kernel::CopyId;

use crate::agenda::{Agenda, NEVER};
use crate::calendar::Calendar;

/// What is known of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyState {
    pub(super) id: CopyId,
    /// The query that it is of, as long as this lives.
    pub(super) query: u32,
    /// The request that this is of.
    pub(super) request: u64,
    pub(super) server: u32,
    pub(super) work_ns: u64,
    /// When its execution began.
    pub(super) began_ns: u64,
    /// When it ends if nobody stops it.
    pub(super) ends_ns: u64,
    /// For how long it executed, once it has ended.
    pub(super) served_ns: u64,
    /// Its jitter is not zero.
    pub(super) hiccup: bool,
    /// It was told to stop while it executed, and is at that.
    pub(super) stopping: bool,
    /// It was told to stop in order to make room.
    pub(super) preempted: bool,
    /// Its server has failed: it is not there, and will not come.
    pub(super) lost: bool,
}

/// What comes of telling a copy to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// It has stopped; this copy begins in its place, if one waited.
    AtOnce(Option<u32>),
    /// It takes time: its end says so.
    Later,
    /// It is not there: not yet, or not any more.
    Unknown,
}

/// The servers of a shard.
#[derive(Debug)]
pub(super) struct Leaves {
    slots: usize,
    /// By place: when its copy ends.
    ends: Agenda,
    /// By place: the copy.
    running: Vec<u32>,
    /// By server: copies that wait there.
    queues: Vec<VecDeque<u32>>,
    /// By server, where one is not always of speed 1.
    calendars: Vec<Calendar>,
    /// By slot of the kernel's.
    pub(super) copies: Vec<CopyState>,
    /// For how long all copies that have ended executed, in ns.
    busy_ns: u128,
}

impl Leaves {
    pub(super) fn new(servers: usize, slots: usize, calendars: Vec<Calendar>) -> Self {
        Self {
            slots,
            ends: Agenda::new(servers * slots),
            running: vec![0; servers * slots],
            queues: vec![VecDeque::new(); servers],
            calendars,
            copies: Vec::new(),
            busy_ns: 0,
        }
    }

    /// When the next copy ends, and where.
    #[inline(always)]
    pub(super) fn next_end(&self) -> (u64, usize) {
        self.ends.first()
    }

    /// When a copy that executes ends.
    pub(super) fn end_of(&self, copy: CopyId) -> Option<u64> {
        self.place_of(copy).map(|place| self.ends.due(place))
    }

    /// Remembers a copy that is on its way.
    #[inline(always)]
    pub(super) fn send(&mut self, copy: CopyState) {
        let slot = copy.id.slot as usize;
        match self.copies.get_mut(slot) {
            Some(entry) => *entry = copy,
            None => {
                debug_assert_eq!(slot, self.copies.len(), "slots are dense");
                self.copies.push(copy);
            }
        }
    }

    /// A copy arrives at its server; true when it begins at once.
    #[inline(always)]
    pub(super) fn admit(&mut self, now: u64, slot: u32) -> bool {
        let server = self.copies[slot as usize].server as usize;
        let first = server * self.slots;
        let mut place = first;
        while self.ends.due(place) != NEVER {
            place += 1;
            if place == first + self.slots {
                self.queues[server].push_back(slot);
                return false;
            }
        }
        self.begin(now, slot, place);
        true
    }

    #[inline(always)]
    fn begin(&mut self, now: u64, slot: u32, place: usize) {
        let copy = &mut self.copies[slot as usize];
        copy.began_ns = now;
        let end = match self.calendars.get_mut(copy.server as usize) {
            None => now.saturating_add(copy.work_ns),
            Some(calendar) => calendar.end(now, copy.work_ns),
        };
        // A copy without an end would leave its place looking idle.
        copy.ends_ns = end.min(NEVER - 1);
        self.ends.set(place, copy.ends_ns);
        self.running[place] = slot;
    }

    /// The copy at a place has ended; also the one that begins there, if one waited.
    #[inline(always)]
    pub(super) fn complete(&mut self, now: u64, place: usize) -> (u32, Option<u32>) {
        let slot = self.running[place];
        self.account(now, slot);
        let server = self.copies[slot as usize].server as usize;
        let next = self.queues[server].pop_front();
        match next {
            None => self.ends.set(place, NEVER),
            Some(next) => self.begin(now, next, place),
        }
        (slot, next)
    }

    #[inline(always)]
    fn account(&mut self, now: u64, slot: u32) {
        let copy = &mut self.copies[slot as usize];
        copy.served_ns = now - copy.began_ns;
        self.busy_ns += u128::from(copy.served_ns);
    }

    /// A copy is to stop: where it executes, that takes `cost_ns`; where it waits, no time.
    pub(super) fn stop(&mut self, now: u64, copy: CopyId, cost_ns: u64) -> Halt {
        let slot = copy.slot as usize;
        if let Some(place) = self.place_of(copy) {
            if cost_ns == 0 {
                return Halt::AtOnce(self.complete(now, place).1);
            }
            let stopped = now.saturating_add(cost_ns);
            if stopped < self.ends.due(place) {
                self.ends.set(place, stopped);
                self.copies[slot].stopping = true;
            }
            return Halt::Later;
        }
        let queue = &mut self.queues[self.copies[slot].server as usize];
        let Some(at) = queue.iter().position(|&slot| slot == copy.slot) else {
            return Halt::Unknown;
        };
        queue.remove(at);
        self.copies[slot].served_ns = 0;
        Halt::AtOnce(None)
    }

    /// A server goes down: what executes there, what waits and what is under way to it is gone.
    pub(super) fn clear(&mut self, now: u64, server: usize) {
        for copy in &mut self.copies {
            copy.lost |= copy.server as usize == server;
        }
        self.queues[server].clear();
        for place in server * self.slots..(server + 1) * self.slots {
            if self.ends.due(place) != NEVER {
                self.account(now, self.running[place]);
                self.ends.set(place, NEVER);
            }
        }
    }

    /// For how long copies have executed, in ns: those that have ended, and those that are at it at
    /// `now`, up to which all has happened.
    pub(super) fn executed(&self, now: u64) -> (u128, u128) {
        let places = 0..self.running.len();
        let executing = places.filter(|&place| self.ends.due(place) != NEVER);
        let began = executing.map(|place| self.copies[self.running[place] as usize].began_ns);
        (self.busy_ns, began.map(|began| u128::from(now - began)).sum())
    }

    /// Where a copy executes.
    fn place_of(&self, copy: CopyId) -> Option<usize> {
        let server = self.copies.get(copy.slot as usize)?.server as usize;
        let mut places = server * self.slots..(server + 1) * self.slots;
        places.find(|&place| self.ends.due(place) != NEVER && self.running[place] == copy.slot)
    }
}
