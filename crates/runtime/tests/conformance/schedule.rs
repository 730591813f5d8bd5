//! Which copy a server executes in which slot, and until when.
//!
//! This is the world's side of a scenario, by the rules of `curtail_sim::script`; written anew and in
//! the simplest way, so that the simulator is not compared with itself.

use std::collections::VecDeque;

/// A copy, by its serial number.
pub type Serial = u64;

#[derive(Clone)]
struct Server {
    /// By slot: what it executes, since when and until when.
    slots: Vec<Option<(Serial, u64, u64)>>,
    /// What waits for a slot, and for how long it will take.
    queue: VecDeque<(Serial, u64)>,
}

pub struct Schedule(Vec<Server>);

impl Schedule {
    pub fn new(servers: u32, slots: u32) -> Self {
        let server = Server { slots: vec![None; slots as usize], queue: VecDeque::new() };
        Self(vec![server; servers as usize])
    }

    /// A copy that takes so long has reached a server.
    pub fn admit(&mut self, now: u64, server: u32, copy: Serial, work_ns: u64) {
        let server = &mut self.0[server as usize];
        server.queue.push_back((copy, work_ns));
        server.fill(now);
    }

    /// A copy ends: how long the server executed it, and how many are left there.
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

    /// A copy has ended, or was cancelled.
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

    /// A server has failed.
    pub fn clear(&mut self, server: u32) {
        let server = &mut self.0[server as usize];
        server.queue.clear();
        server.slots.fill(None);
    }

    /// What ends next and when: of several at one time that on the first server, in its first slot.
    pub fn next_end(&self) -> Option<(u64, Serial)> {
        let running = self.0.iter().flat_map(|server| server.slots.iter().flatten());
        // Of equals it takes the first.
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
