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
use crate::cell::{GroupState, ServerState};
use crate::id::{NONE, ServerId};
use crate::time::Timestamp;
use rand_core::Rng as _;

const SCAN: usize = 8;

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
    fn bits_from(&self, first: u32) -> u32 {
        let bit = |avoided: Option<ServerId>| {
            let at = avoided.map_or(NONE, |avoided| avoided.0.wrapping_sub(first));
            if at < SCAN as u32 { 1 << at } else { 0 }
        };
        bit(self.0[0]) | bit(self.0[1])
    }
}

/// Returns a random number from 0 to `n` − 1, by multiply-shift. The bias is below n / 2³².
#[inline]
fn below(rng: &mut Rng, n: u32) -> u32 {
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

    fn available(&self) -> &[u32] {
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
    fn least(&self, servers: &[ServerId], rng: &mut Rng, avoid: Avoid) -> u32 {
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
fn draw(servers: &[ServerId], members: &[u32], rng: &mut Rng, avoid: Avoid) -> u32 {
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

/// The servers of a group, as a pick sees them.
#[derive(Clone, Copy, Debug)]
pub struct Levels<'a> {
    pub(crate) group: &'a GroupState,
    pub(crate) states: &'a [ServerState],
    pub(crate) now: Timestamp,
}

impl Levels<'_> {
    /// Returns all servers of the group, in the order of the topology.
    #[must_use]
    pub fn servers(&self) -> &[ServerId] {
        &self.group.servers
    }

    /// Returns the time of the current event.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the number of copies on a server that a new copy may have to wait for.
    #[must_use]
    pub fn outstanding(&self, server: ServerId) -> u32 {
        self.states[server.index()].ahead()
    }

    /// Returns two different servers that can take a copy, uniformly at random. Returns the same
    /// server twice if it is the only one, or, rarely, if two servers are to be avoided.
    #[inline(always)]
    #[must_use]
    pub fn two(&self, rng: &mut Rng, avoid: Avoid) -> Option<[ServerId; 2]> {
        let one = self.uniform(rng, avoid)?;
        let others = match avoid.0 {
            [first, None] | [None, first] => Avoid([first, Some(one)]),
            both => Avoid(both),
        };
        Some([one, self.uniform(rng, others).unwrap_or(one)])
    }

    /// Whether the server can take a copy.
    #[inline(always)]
    #[must_use]
    pub fn is_available(&self, server: ServerId) -> bool {
        self.level(server) != FULL
    }

    /// Returns the load of a server. This is the number of copies there that a new copy may have to
    /// wait for, plus the difference between the largest number of slots of any server and its own.
    /// `u32::MAX` if the server can take no copy.
    #[inline(always)]
    #[must_use]
    pub fn level(&self, server: ServerId) -> u32 {
        self.states[server.index()].level
    }

    /// Returns the servers that can take a copy.
    pub fn available(&self) -> impl Iterator<Item = ServerId> + '_ {
        let GroupState { servers, order, .. } = self.group;
        let scan = if order.is_some() { &[] } else { &servers[..] };
        let sorted = order.as_deref().map_or(&[][..], Order::available);
        let sorted = sorted.iter().map(|&member| servers[member as usize]);
        scan.iter().copied().filter(|&server| self.is_available(server)).chain(sorted)
    }

    /// Returns the server with the least score among those that can take a copy. Ties are broken at
    /// random. O(servers).
    #[must_use]
    pub fn least_by<Score: PartialOrd>(
        &self,
        rng: &mut Rng,
        avoid: Avoid,
        score: impl Fn(ServerId) -> Score,
    ) -> Option<ServerId> {
        let (mut best, mut ties) = (None, 0);
        for server in self.available().filter(|&server| !avoid.contains(server)) {
            let score = score(server);
            ties = match best {
                Some((ref least, _)) if score > *least => continue,
                Some((ref least, _)) if score == *least => ties + 1,
                _ => 1,
            };
            // Each of k tied servers is kept with probability 1/k.
            if ties == 1 || below(rng, ties) == 0 {
                best = Some((score, server));
            }
        }
        best.map(|(_, server)| server)
    }

    /// Returns a server that can take a copy, uniformly at random. O(1) in large groups.
    #[inline(always)]
    #[must_use]
    pub fn uniform(&self, rng: &mut Rng, avoid: Avoid) -> Option<ServerId> {
        let Self { group, states, .. } = *self;
        let Some(order) = &group.order else {
            return scan(group, states, rng, avoid, |level| if level == FULL { FULL } else { 0 });
        };
        let found = draw(&group.servers, order.available(), rng, avoid);
        (found != NONE).then_some(ServerId(found))
    }

    /// Returns a least loaded server that can take a copy. Ties are broken at random. O(1) in large
    /// groups, and O(levels) if all of the least loaded servers are to be avoided.
    #[inline(always)]
    #[must_use]
    pub fn least(&self, rng: &mut Rng, avoid: Avoid) -> Option<ServerId> {
        let Self { group, states, .. } = *self;
        let Some(order) = &group.order else {
            return scan(group, states, rng, avoid, |level| level);
        };
        let found = order.least(&group.servers, rng, avoid);
        (found != NONE).then_some(ServerId(found))
    }
}

/// Returns the server with the least key. Ties are broken at random. `key` maps a level to a key,
/// and must map [`FULL`] to [`FULL`].
///
/// A processor cannot predict which servers have the least key, so the only branch tests whether
/// there is a tie.
#[inline(always)]
fn scan(
    group: &GroupState,
    states: &[ServerState],
    rng: &mut Rng,
    avoid: Avoid,
    key: impl Fn(u32) -> u32,
) -> Option<ServerId> {
    let ties = match &group.servers[..] {
        &[first, second] => {
            let (first, second) =
                (key(open(states, first, avoid)), key(open(states, second, avoid)));
            let least = MOST.min(first).min(second);
            u32::from(first == least) | u32::from(second == least) << 1
        }
        servers => match group.consecutive(states) {
            Some((first, states)) => {
                least_of(states.iter().map(|state| key(state.level)), avoid.bits_from(first))
            }
            None => least_of(servers.iter().map(|&server| key(open(states, server, avoid))), 0),
        },
    };
    let ties = if ties & ties.wrapping_sub(1) != 0 { toss(ties, rng) } else { ties };
    group.servers.get(ties.trailing_zeros() as usize).copied()
}

/// The largest key of a server that can take a copy.
const MOST: u32 = FULL - 1;

/// Returns the level of a server, or [`FULL`] if it is to be avoided.
#[inline(always)]
fn open(states: &[ServerState], server: ServerId, avoid: Avoid) -> u32 {
    states[server.index()].level | full_if(avoid.contains(server))
}

/// Returns [`FULL`] or 0, to be combined with a key by OR.
#[inline(always)]
fn full_if(is_full: bool) -> u32 {
    0_u32.wrapping_sub(u32::from(is_full))
}

/// Returns a mask of the members with the least key, ignoring the members whose bits are set in
/// `avoid`.
#[inline(always)]
fn least_of(keys: impl Iterator<Item = u32>, avoid: u32) -> u32 {
    let (mut least, mut ties, mut bit) = (MOST, 0, 1);
    for key in keys {
        let key = key | full_if(avoid & bit != 0);
        ties = if key < least { 0 } else { ties } | if key <= least { bit } else { 0 };
        least = least.min(key);
        bit <<= 1;
    }
    ties
}

/// Returns one of the set bits of `ties` at random. This is not inlined into [`scan`], because the
/// random number generator would take registers from the loop there.
#[inline(never)]
fn toss(ties: u32, rng: &mut Rng) -> u32 {
    // This needs one draw for any number of bits, and no branch depends on the result.
    let nth = below(rng, ties.count_ones());
    u32::from(NTH[ties as usize % NTH.len()][nth as usize % SCAN])
}

/// In `NTH[bits][n]`, only the n-th set bit of `bits` is set.
static NTH: [[u8; SCAN]; 1 << SCAN] = nth();

const fn nth() -> [[u8; SCAN]; 1 << SCAN] {
    let mut table = [[0; SCAN]; 1 << SCAN];
    let mut bits = 0;
    while bits < table.len() {
        let (mut bit, mut nth) = (0, 0);
        while bit < SCAN {
            if bits >> bit & 1 == 1 {
                table[bits][nth] = 1 << bit;
                nth += 1;
            }
            bit += 1;
        }
        bits += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a group of `count` servers, numbered from 10 in steps of `step`, with random levels.
    fn check(count: u32, step: u32) {
        let mut rng = crate::rng(3);
        let servers: Vec<ServerId> = (0..count).map(|i| ServerId(i * step + 10)).collect();
        let mut states = vec![ServerState::new(1, 1, 0); (10 + count * step) as usize];
        let mut group = GroupState::new(&servers, 4);
        for _ in 0..3_000 {
            let member = below(&mut rng, count);
            let new = [0, 1, 2, 3, FULL][below(&mut rng, 5) as usize];
            states[servers[member as usize].index()].level = new;
            if let Some(order) = &mut group.order {
                order.set(member, new);
            }
            let levels = group.levels(&states, Timestamp(0));
            let mut available: Vec<_> = levels.available().collect();
            available.sort_unstable();
            let open = |s: &ServerId| states[s.index()].level != FULL;
            assert_eq!(available, servers.iter().copied().filter(open).collect::<Vec<_>>());

            let avoid = Avoid([Some(ServerId(10)), Some(ServerId(12))]);
            let rest = available.iter().filter(|s| !avoid.contains(**s));
            let least = rest.map(|s| levels.level(*s)).min();
            let found = levels.least(&mut rng, avoid);
            assert!(found.is_none_or(|server| !avoid.contains(server)));
            assert_eq!(found.map(|server| levels.level(server)), least);
            assert_eq!(levels.uniform(&mut rng, avoid).is_some(), least.is_some());
        }
    }

    #[test]
    fn picks_agree_with_a_sorted_list() {
        for count in [2, 6, 20] {
            check(count, 1);
            check(count, 2);
        }
    }

    #[test]
    fn picks_are_fair() {
        for count in [6, 20] {
            let mut rng = crate::rng(5);
            let servers: Vec<ServerId> = (0..count).map(ServerId).collect();
            let states = vec![ServerState::new(1, 2, 1); count as usize];
            let mut group = GroupState::new(&servers, 2);
            for member in 0..count {
                group.order.iter_mut().for_each(|order| order.set(member, 1));
            }
            let levels = group.levels(&states, Timestamp(0));
            let avoid = Avoid([Some(ServerId(1)), None]);
            let mut hits = vec![[0; 2]; count as usize];
            for _ in 0..1_000 * count {
                hits[levels.uniform(&mut rng, avoid).expect("available").index()][0] += 1;
                hits[levels.least(&mut rng, avoid).expect("available").index()][1] += 1;
            }
            let fair = 1_000 * count / (count - 1);
            for (server, hits) in hits.iter().enumerate() {
                let range = if server == 1 { 0..1 } else { fair - 150..fair + 150 };
                assert!(hits.iter().all(|n| range.contains(n)), "{server}: {hits:?}");
            }
        }
    }
}
