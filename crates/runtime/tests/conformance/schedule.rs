//! Determines which copy a server executes in each slot, and when that copy ends.
//!
//! This module plays the servers of a scenario, according to the rules of `curtail_sim::script`. It
//! is a separate implementation, as simple as possible, so that the simulator is not compared with
//! itself.

use std::collections::VecDeque;

/// The serial number of a copy.
pub type Serial = u64;

#[derive(Clone)]
struct Server {
    /// For each slot: the running copy, its start and its end.
    slots: Vec<Option<(Serial, u64, u64)>>,
    /// Copies that wait for a slot, with the time that each takes.
    queue: VecDeque<(Serial, u64)>,
}

pub struct Schedule(Vec<Server>);

impl Schedule {
    pub fn new(servers: u32, slots: u32) -> Self {
        let server = Server { slots: vec![None; slots as usize], queue: VecDeque::new() };
        Self(vec![server; servers as usize])
    }

    /// Admits a copy that takes `work_ns`.
    pub fn admit(&mut self, now: u64, server: u32, copy: Serial, work_ns: u64) {
        let server = &mut self.0[server as usize];
        server.queue.push_back((copy, work_ns));
        server.fill(now);
    }

    /// Ends a copy. Returns the time for which the server executed it, and the number of copies
    /// left at the server.
    pub fn end(&mut self, now: u64, copy: Serial) -> (u64, u32) {
        let runs = |slot: &Option<(Serial, u64, u64)>| slot.is_some_and(|of| of.0 == copy);
        let on = self.0.iter().position(|server| server.slots.iter().any(runs)).expect("it runs");
        let mut running = self.0[on].slots.iter().flatten();
        let (_, since, _) = *running.find(|of| of.0 == copy).expect("it runs");
        self.remove(now, copy);
        let server = &self.0[on];
        let left = server.slots.iter().flatten().count() + server.queue.len();
        (now - since, left as u32)
    }

    /// Removes a copy that has ended or was cancelled.
    pub fn remove(&mut self, now: u64, copy: Serial) {
        for server in &mut self.0 {
            server.queue.retain(|&(waiting, _)| waiting != copy);
            for slot in &mut server.slots {
                if slot.is_some_and(|(running, ..)| running == copy) {
                    *slot = None;
                }
            }
            server.fill(now);
        }
    }

    /// Removes all copies of a server that has failed.
    pub fn clear(&mut self, server: u32) {
        let server = &mut self.0[server as usize];
        server.queue.clear();
        server.slots.fill(None);
    }

    /// Returns the copy that ends next, and when it ends. If several end at the same time, returns
    /// the one on the first server, in its first slot.
    pub fn next_end(&self) -> Option<(u64, Serial)> {
        let running = self.0.iter().flat_map(|server| server.slots.iter().flatten());
        // If several are equal, `min_by_key` returns the first.
        running.map(|&(copy, _, ends)| (ends, copy)).min_by_key(|&(ends, _)| ends)
    }
}

impl Server {
    fn fill(&mut self, now: u64) {
        for slot in &mut self.slots {
            if slot.is_none() {
                *slot = self.queue.pop_front().map(|(copy, work_ns)| (copy, now, now + work_ns));
            }
        }
    }
}
