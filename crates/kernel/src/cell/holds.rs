//! The slots held for copies that were refused or failed, and the moving average that determines
//! how long they are held. `typical.rs` uses this data.

use alloc::vec::Vec;

use crate::heap::Heaps;
use crate::id::ServerId;
use crate::time::Timestamp;

/// A good response moves the average by 1/8 of the difference.
const WEIGHT_SHIFT: u32 = 3;

/// Returns the average after one more good response, which took `took_ns`. An average of 0 means
/// that there was no response before.
#[inline(always)]
pub(super) fn sample(typical_ns: u64, took_ns: u64) -> u64 {
    match typical_ns {
        0 => took_ns,
        typical => {
            typical.wrapping_add_signed((took_ns.wrapping_sub(typical) as i64) >> WEIGHT_SHIFT)
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::sample;

    #[test]
    fn the_average_begins_with_the_first_response_and_follows_those_that_come() {
        assert_eq!(sample(0, 800), 800);
        assert_eq!(sample(800, 1_600), 900);
        assert_eq!(sample(800, 0), 700);
        let long = (0..100).fold(10, |typical, _| sample(typical, 1_000_000));
        assert!((999_000..=1_000_000).contains(&long), "{long}");
        assert_eq!(sample(u64::MAX / 2, u64::MAX / 2), u64::MAX / 2);
    }
}
