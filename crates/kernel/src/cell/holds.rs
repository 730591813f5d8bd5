//! The slots held for copies that were refused or failed. `typical.rs` uses this data.

use alloc::vec::Vec;

use crate::heap::Heaps;
use crate::id::ServerId;
use crate::time::Timestamp;

/// The held slots, indexed by hold.
#[derive(Clone, Debug)]
pub(crate) struct Holds {
    servers: Vec<ServerId>,
    free: Vec<u32>,
    /// When each slot is freed.
    pub(super) until: Heaps<Timestamp>,
}

impl Holds {
    pub(super) fn new() -> Self {
        Self { servers: Vec::new(), free: Vec::new(), until: Heaps::new(1) }
    }

    pub(super) fn add(&mut self, server: ServerId, until: Timestamp) {
        let hold = self.free.pop().unwrap_or_else(|| {
            self.servers.push(server);
            self.servers.len() as u32 - 1
        });
        self.servers[hold as usize] = server;
        self.until.insert(0, until, hold);
    }

    pub(super) fn remove(&mut self, hold: u32) -> ServerId {
        self.until.remove(0, hold);
        self.free.push(hold);
        self.servers[hold as usize]
    }

    /// Returns one of the server's holds, if it has any.
    pub(super) fn any_of(&self, server: ServerId) -> Option<u32> {
        let mut all = (0..).zip(&self.servers);
        all.find(|&(hold, &of)| of == server && self.until.contains(hold)).map(|(hold, _)| hold)
    }
}
