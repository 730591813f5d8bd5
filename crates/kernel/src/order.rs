//! The servers of a group, ordered by load.
//!
//! In a small group every pick scans all servers: for up to [`SCAN`] servers, a scan is cheaper
//! than maintaining an order. A larger group maintains a counting sort: `order` lists the members
//! by level, and `ends[k]` is the end of level k. A member whose level changes swaps places with
//! the member at the border of its level, so a change costs O(1) per level crossed. The least
//! loaded members and the available members are prefixes of `order`.

use alloc::vec;
use alloc::vec::Vec;

use crate::Rng;
use crate::id::{NONE, ServerId};
use rand_core::Rng as _;

pub(crate) const SCAN: usize = 8;

/// The level of a server that cannot take a copy because it is full, closed, or out of service.
pub(crate) const FULL: u32 = u32::MAX;

/// Servers that a copy must not go to: the server that holds the query's other copy, and the server
/// that failed it, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Avoid(pub [Option<ServerId>; 2]);

impl Avoid {
    /// There is no server to avoid.
    pub const NONE: Self = Self([None; 2]);

    /// Whether the copy must not go to this server.
    #[inline(always)]
    #[must_use]
    pub fn contains(&self, server: ServerId) -> bool {
        // This code has no branches, and an entry that is known to be `None` at compile time
        // generates no code.
        let is = |avoided: Option<ServerId>| avoided.is_some_and(|avoided| avoided == server);
        is(self.0[0]) | is(self.0[1])
    }

    /// Returns a mask. Bit i is set if the copy must not go to server `first` + i, for i below
    /// [`SCAN`].
    #[inline(always)]
    pub(crate) fn bits_from(&self, first: u32) -> u32 {
        let bit = |avoided: Option<ServerId>| {
            let at = avoided.map_or(NONE, |avoided| avoided.0.wrapping_sub(first));
            if at < SCAN as u32 { 1 << at } else { 0 }
        };
        bit(self.0[0]) | bit(self.0[1])
    }
}

/// Returns a random number from 0 to `n` − 1, by multiply-shift. The bias is below n / 2³².
#[inline]
pub(crate) fn below(rng: &mut Rng, n: u32) -> u32 {
    ((u64::from(rng.next_u32()) * u64::from(n)) >> 32) as u32
}

#[derive(Clone, Debug)]
pub(crate) struct Order {
    position: Vec<u32>,
    /// The level of each member, at most the level of full members.
    level: Vec<u32>,
    order: Vec<u32>,
    /// The end of each level in `order`. The last level contains the full members.
    ends: Vec<u32>,
}

impl Order {
    /// Creates the order of a group of `count` members on level 0, where `full` is the level of
    /// full members. `None` if a scan is cheaper.
    pub(crate) fn new(count: usize, full: u32) -> Option<Self> {
        let all = || (0..count as u32).collect();
        (count > SCAN).then(|| Self {
            position: all(),
            level: vec![0; count],
            order: all(),
            ends: vec![count as u32; full as usize + 1],
        })
    }

    /// Raises the level of full members to `full`, if that is higher than the current level.
    pub(crate) fn make_room(&mut self, full: u32) {
        let was_full = self.ends.len() as u32 - 1;
        if full > was_full {
            let available = self.available().len() as u32;
            self.ends.resize(full as usize, available);
            self.ends[was_full as usize] = available;
            self.ends.push(self.order.len() as u32);
            self.level.iter_mut().filter(|level| **level == was_full).for_each(|at| *at = full);
        }
    }

    pub(crate) fn set(&mut self, member: u32, level: u32) {
        let level = level.min(self.ends.len() as u32 - 1);
        let mut at = core::mem::replace(&mut self.level[member as usize], level);
        while at < level {
            self.ends[at as usize] -= 1;
            self.swap(member, self.ends[at as usize]);
            at += 1;
        }
        while at > level {
            at -= 1;
            self.swap(member, self.ends[at as usize]);
            self.ends[at as usize] += 1;
        }
    }

    fn swap(&mut self, member: u32, to: u32) {
        let from = core::mem::replace(&mut self.position[member as usize], to);
        let other = core::mem::replace(&mut self.order[to as usize], member);
        self.order[from as usize] = other;
        self.position[other as usize] = from;
        self.position[member as usize] = to;
    }

    pub(crate) fn available(&self) -> &[u32] {
        &self.order[..self.ends[self.ends.len() - 2] as usize]
    }

    /// Returns the available members from position `from` to the end of their level, and that end.
    fn level_at(&self, from: usize) -> Option<(&[u32], usize)> {
        let &first = self.available().get(from)?;
        let end = self.ends[self.level[first as usize] as usize] as usize;
        Some((&self.order[from..end], end))
    }

    /// Returns a least loaded server, or [`NONE`]. Ties are broken at random.
    #[inline(never)]
    pub(crate) fn least(&self, servers: &[ServerId], rng: &mut Rng, avoid: Avoid) -> u32 {
        let mut from = 0;
        while let Some((members, end)) = self.level_at(from) {
            let found = draw(servers, members, rng, avoid);
            if found != NONE {
                return found;
            }
            from = end;
        }
        NONE
    }
}

/// Returns the server of a random member that is not to be avoided, or [`NONE`]. The result is not
/// an `Option`, because every caller in the chain would have to unpack it and pack it again.
pub(crate) fn draw(servers: &[ServerId], members: &[u32], rng: &mut Rng, avoid: Avoid) -> u32 {
    let of = |at: u32| servers[members[at as usize] as usize];
    let count = members.len() as u32;
    if avoid == Avoid::NONE && count > 0 {
        return of(below(rng, count)).0;
    }
    // At most two servers are avoided, so three draws without replacement find another one. After a
    // miss, draw among the members that have not been drawn.
    let mut missed = [NONE; 2];
    for round in 0..count.min(3) {
        let mut at = below(rng, count - round);
        for skip in missed {
            at += u32::from(at >= skip);
        }
        let server = of(at);
        if !avoid.contains(server) {
            return server.0;
        }
        if let Some(miss) = missed.get_mut(round as usize) {
            *miss = at;
        }
        missed.sort_unstable();
    }
    NONE
}
