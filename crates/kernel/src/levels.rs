//! The servers of a group, as a pick sees them. See `order.rs` for large groups.

use crate::Rng;
use crate::id::{NONE, ServerId};
use crate::order::{Avoid, FULL, Order, SCAN, below, draw};
use crate::servers::{GroupState, ServerState};
use crate::time::Timestamp;

/// The servers of a group, as a pick sees them.
#[derive(Clone, Copy, Debug)]
pub struct Levels<'a> {
    group: &'a GroupState,
    states: &'a [ServerState],
    now: Timestamp,
}

impl<'a> Levels<'a> {
    #[inline(always)]
    pub(crate) fn of(group: &'a GroupState, states: &'a [ServerState], now: Timestamp) -> Self {
        Self { group, states, now }
    }

    /// Returns all servers of the group, in the order of the topology, with absent places.
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
    use alloc::vec;
    use alloc::vec::Vec;

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
            let levels = Levels::of(&group, &states, Timestamp(0));
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
            let levels = Levels::of(&group, &states, Timestamp(0));
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
