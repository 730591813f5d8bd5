//! The servers of a shard: slots, and before them a queue, first come first served.
//!
//! A *place* is a slot of a server; server s with c slots has the places s·c to s·c + c − 1.
//! Cost: O(places) for up to 16 of them, else O(log places), per copy.

use std::collections::VecDeque;

use curtail_kernel::{CopyId, Feedback, Topology};

use crate::agenda::{Agenda, NEVER};
use crate::calendar::Calendar;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CopyState {
    pub(super) id: CopyId,
    /// The query that it is of, as long as this lives.
    pub(super) query: u32,
    pub(super) request: u64,
    pub(super) server: u32,
    pub(super) work_ns: u64,
    /// When its execution began.
    pub(super) began_ns: u64,
    /// When it ends unless it is stopped.
    pub(super) ends_ns: u64,
    pub(super) served_ns: u64,
    /// Copies that were left at the server when it ended, for cells that listen.
    pub(super) left: u32,
    /// Its jitter is not zero.
    pub(super) hiccup: bool,
    pub(super) stopping: bool,
    pub(super) preempted: bool,
    /// Its server has failed: it is not there, and will not come.
    pub(super) lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// It has stopped; this copy begins in its place, if one waited.
    AtOnce(Option<u32>),
    /// It takes time: its end says so.
    Later,
    /// It is not there: not yet, or not any more.
    Unknown,
}

#[derive(Debug)]
pub(super) struct Leaves {
    slots: usize,
    /// By place: when its copy ends.
    ends: Agenda,
    /// By place: the copy.
    running: Vec<u32>,
    /// By server: copies that wait there.
    queues: Vec<VecDeque<u32>>,
    /// How many wait, at whatever server: mostly none, and then no queue is looked at.
    waiting: usize,
    /// So many may.
    room: usize,
    /// More did, or a server was given all that it may hold: from then on the policy could not do
    /// what it would.
    pub(super) overflowed: bool,
    /// By server, where one is not always of speed 1.
    calendars: Vec<Calendar>,
    /// By slot of the kernel's.
    pub(super) copies: Vec<CopyState>,
    /// For how long all copies that have ended executed, in ns.
    busy_ns: u128,
}

impl Leaves {
    /// Servers with so many slots, at which so many copies may wait.
    pub(super) fn new(servers: usize, slots: usize, room: usize, calendars: Vec<Calendar>) -> Self {
        Self {
            slots,
            ends: Agenda::new(servers * slots),
            running: vec![0; servers * slots],
            queues: vec![VecDeque::new(); servers],
            waiting: 0,
            room,
            overflowed: false,
            calendars,
            copies: Vec::new(),
            busy_ns: 0,
        }
    }

    /// Copies that begin from now on run at these speeds.
    pub(super) fn set_speeds(&mut self, speeds: &[f64]) {
        if self.calendars.is_empty() && speeds.iter().any(|&speed| speed != 1.0) {
            // Without slow stretches there is nothing to draw.
            self.calendars = speeds.iter().map(|_| Calendar::new(1.0, None, 0)).collect();
        }
        for (calendar, &speed) in self.calendars.iter_mut().zip(speeds) {
            calendar.set_base(speed);
        }
    }

    #[inline(always)]
    pub(super) fn next_end(&self) -> (u64, usize) {
        self.ends.first()
    }

    pub(super) fn end_of(&self, copy: CopyId) -> Option<u64> {
        self.place_of(copy).map(|place| self.ends.due(place))
    }

    /// Where to write what is known of a copy that starts. To be written there field by field: what
    /// is built elsewhere and copied in wider pieces, the processor has to wait for.
    #[inline(always)]
    pub(super) fn entry(&mut self, slot: u32) -> &mut CopyState {
        if slot as usize >= self.copies.len() {
            self.grow(slot);
        }
        &mut self.copies[slot as usize]
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, slot: u32) {
        debug_assert_eq!(slot as usize, self.copies.len(), "slots are dense");
        self.copies.push(CopyState::default());
    }

    #[inline(always)]
    pub(super) fn admit(&mut self, now: u64, slot: u32) -> bool {
        let CopyState { server, work_ns, .. } = self.copies[slot as usize];
        let Some(place) = self.idle_place(server) else {
            self.wait(slot, server);
            return false;
        };
        let end = self.end(now, server, work_ns);
        let copy = &mut self.copies[slot as usize];
        (copy.began_ns, copy.ends_ns) = (now, end);
        self.occupy(place, slot, end);
        true
    }

    #[inline(always)]
    pub(super) fn idle_place(&self, server: u32) -> Option<usize> {
        let first = server as usize * self.slots;
        let mut place = first;
        while self.ends.due(place) != NEVER {
            place += 1;
            if place == first + self.slots {
                return None;
            }
        }
        Some(place)
    }

    #[inline(never)]
    /// A copy has just ended: its response says how many are left at its server.
    pub(super) fn note_queue(&mut self, copy: CopyId) {
        let server = self.copies[copy.slot as usize].server;
        self.copies[copy.slot as usize].left = self.outstanding(server);
    }

    /// What the response of a copy that has ended says of its server.
    pub(super) fn feedback(&self, copy: CopyId) -> Feedback {
        let CopyState { left, served_ns, .. } = self.copies[copy.slot as usize];
        Feedback { queue: left, service_ns: served_ns }
    }

    /// Copies that are at a server.
    pub(super) fn outstanding(&self, server: u32) -> u32 {
        let first = server as usize * self.slots;
        let busy = (first..first + self.slots).filter(|&place| self.ends.due(place) != NEVER);
        (busy.count() + self.queues[server as usize].len()) as u32
    }

    pub(super) fn wait(&mut self, slot: u32, server: u32) {
        let queue = &mut self.queues[server as usize];
        queue.push_back(slot);
        self.waiting += 1;
        let is_full = queue.len() + self.slots >= Topology::MAX_GATE as usize;
        self.overflowed |= is_full || self.waiting > self.room;
    }

    /// When a server is done with so much work, if it begins now. Asked once per copy, in time.
    #[inline(always)]
    pub(super) fn end(&mut self, now: u64, server: u32, work_ns: u64) -> u64 {
        let end = match self.calendars.get_mut(server as usize) {
            None => now.saturating_add(work_ns),
            Some(calendar) => calendar.end(now, work_ns),
        };
        // A copy without an end would leave its place looking idle.
        end.min(NEVER - 1)
    }

    #[inline(always)]
    pub(super) fn occupy(&mut self, place: usize, slot: u32, end: u64) {
        self.ends.add(place, end);
        self.running[place] = slot;
    }

    /// The copy at a place has ended; also the slot of the one that begins there, if one waited.
    #[inline(always)]
    pub(super) fn complete(&mut self, now: u64, place: usize) -> (CopyState, Option<u32>) {
        let copy = &mut self.copies[self.running[place] as usize];
        copy.served_ns = now - copy.began_ns;
        self.busy_ns += u128::from(copy.served_ns);
        let ended = *copy;
        if self.waiting > 0
            && let Some(next) = self.begin_next(now, place, ended.server)
        {
            return (ended, Some(next));
        }
        self.ends.set(place, NEVER);
        (ended, None)
    }

    /// The copy that waits longest at a server begins at a place.
    #[inline(never)]
    fn begin_next(&mut self, now: u64, place: usize, server: u32) -> Option<u32> {
        let next = self.queues[server as usize].pop_front()?;
        self.waiting -= 1;
        let end = self.end(now, server, self.copies[next as usize].work_ns);
        let copy = &mut self.copies[next as usize];
        (copy.began_ns, copy.ends_ns) = (now, end);
        self.ends.set(place, end);
        self.running[place] = next;
        Some(next)
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
        self.waiting -= 1;
        self.copies[slot].served_ns = 0;
        Halt::AtOnce(None)
    }

    /// A server goes down: what executes there, what waits and what is under way to it is gone.
    pub(super) fn clear(&mut self, now: u64, server: usize) {
        for copy in &mut self.copies {
            copy.lost |= copy.server as usize == server;
        }
        self.waiting -= self.queues[server].len();
        self.queues[server].clear();
        for place in server * self.slots..(server + 1) * self.slots {
            if self.ends.due(place) != NEVER {
                self.complete(now, place);
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

    fn place_of(&self, copy: CopyId) -> Option<usize> {
        let server = self.copies.get(copy.slot as usize)?.server as usize;
        let mut places = server * self.slots..(server + 1) * self.slots;
        places.find(|&place| self.ends.due(place) != NEVER && self.running[place] == copy.slot)
    }
}
