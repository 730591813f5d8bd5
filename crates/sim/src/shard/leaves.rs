//! The servers of a shard: slots, with a first-come, first-served queue in front of them.
//!
//! A *place* is a slot of a server. If each server has c slots, server s has the places s·c to s·c
//! + c − 1. Cost per copy: O(places) for up to 16 places, otherwise O(log places).

use std::collections::VecDeque;

use curtail_kernel::{CopyId, Feedback, Topology};

use crate::agenda::{Agenda, Due, NEVER};
use crate::calendar::Calendar;
use crate::part::Executed;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CopyState {
    pub(super) id: CopyId,
    /// The id of the copy's query, valid while the query is open.
    pub(super) query: u32,
    pub(super) request: u64,
    pub(super) server: u32,
    pub(super) work_ns: u64,
    /// The start of its execution.
    pub(super) began_ns: u64,
    /// The end of its execution, unless it is stopped.
    pub(super) ends_ns: u64,
    pub(super) served_ns: u64,
    /// The number of copies at the server after this one ended, for cells that read feedback.
    pub(super) left: u32,
    /// Whether its jitter is above zero.
    pub(super) hiccup: bool,
    pub(super) stopping: bool,
    pub(super) preempted: bool,
    /// Whether the copy was lost at its server, or on its way there, because the server failed.
    pub(super) lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// It has stopped. If another copy was waiting, that copy begins in the free place.
    AtOnce(Option<u32>),
    /// The copy is still executing and will end later.
    Later,
    /// The copy is not at the server, because it has not arrived yet or has already left.
    Unknown,
}

#[derive(Debug)]
pub(super) struct Leaves {
    slots: usize,
    /// The end of the copy at each place.
    ends: Agenda,
    /// The slot of the copy at each place.
    running: Vec<u32>,
    /// The waiting copies of each server.
    queues: Vec<VecDeque<u32>>,
    /// The total number of waiting copies. If this number is 0, as it usually is, no queue is
    /// examined.
    waiting: usize,
    /// The maximum number of waiting copies.
    room: usize,
    /// Whether too many copies waited or a server had the maximum number of copies. From that time
    /// on, the policy's choices are limited.
    pub(super) overflowed: bool,
    /// Calendars by server. Empty if all servers always have speed 1.
    calendars: Vec<Calendar>,
    /// The copies, by the kernel's slot.
    pub(super) copies: Vec<CopyState>,
    /// Total execution time of the copies that have ended, in ns.
    busy_ns: u128,
}

impl Leaves {
    /// Creates servers with `slots` slots each and with room for a total of `room` waiting copies.
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

    /// Sets the speeds of copies that begin from now on.
    pub(super) fn set_speeds(&mut self, speeds: &[f64]) {
        if self.calendars.is_empty() && speeds.iter().any(|&speed| speed != 1.0) {
            // Without slow intervals, calendars draw nothing and do not need a seed.
            self.calendars = speeds.iter().map(|_| Calendar::new(1.0, None, 0)).collect();
        }
        for (calendar, &speed) in self.calendars.iter_mut().zip(speeds) {
            calendar.set_base(speed);
        }
    }

    #[inline(always)]
    pub(super) fn next_end(&self) -> Due {
        self.ends.first()
    }

    pub(super) fn end_of(&self, copy: CopyId) -> Option<u64> {
        self.place_of(copy).map(|place| self.ends.due(place))
    }

    /// Returns the entry of a copy that starts. Write the entry field by field, because the
    /// processor stalls if a value is built elsewhere and then copied in wider pieces.
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

    /// Stores the number of copies left at a server after one of its copies has ended. The response
    /// of that copy contains the number.
    #[inline(never)]
    pub(super) fn note_queue(&mut self, copy: CopyId) {
        let server = self.copies[copy.slot as usize].server;
        self.copies[copy.slot as usize].left = self.outstanding(server);
    }

    /// Returns the server's feedback in the response of a copy that has ended.
    pub(super) fn feedback(&self, copy: CopyId) -> Feedback {
        let CopyState { left, served_ns, .. } = self.copies[copy.slot as usize];
        Feedback { queue: left, service_ns: served_ns }
    }

    /// Returns the number of copies at a server.
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

    /// Returns the time at which a server completes work that begins now. This method must be
    /// called once per copy, in order of time.
    #[inline(always)]
    pub(super) fn end(&mut self, now: u64, server: u32, work_ns: u64) -> u64 {
        let end = match self.calendars.get_mut(server as usize) {
            None => now.saturating_add(work_ns),
            Some(calendar) => calendar.end(now, work_ns),
        };
        // If a copy had no end, its place would look idle.
        end.min(NEVER - 1)
    }

    #[inline(always)]
    pub(super) fn occupy(&mut self, place: usize, slot: u32, end: u64) {
        self.ends.add(place, end);
        self.running[place] = slot;
    }

    /// Ends the copy at a place. Returns the copy and, if a waiting copy begins there, the slot of
    /// that copy.
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

    /// Starts the copy that has waited longest at a server.
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

    /// Stops a copy. This takes `cost_ns` if the copy is executing, and no time if the copy is
    /// waiting.
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

    /// Takes a server down. Copies that are executing there, waiting there or on their way there
    /// are lost.
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

    /// See [`crate::part::Part::executed`].
    pub(super) fn executed(&self, now: u64) -> Executed {
        let places = 0..self.running.len();
        let executing = places.filter(|&place| self.ends.due(place) != NEVER);
        let began = executing.map(|place| self.copies[self.running[place] as usize].began_ns);
        let running_ns = began.map(|began| u128::from(now - began)).sum();
        Executed { ended_ns: self.busy_ns, running_ns }
    }

    fn place_of(&self, copy: CopyId) -> Option<usize> {
        let server = self.copies.get(copy.slot as usize)?.server as usize;
        let mut places = server * self.slots..(server + 1) * self.slots;
        places.find(|&place| self.ends.due(place) != NEVER && self.running[place] == copy.slot)
    }
}
