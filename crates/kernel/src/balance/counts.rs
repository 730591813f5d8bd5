//! Picks that look only at the copies that this cell has at its servers. They break ties at random
//! or in turn.
//!
//! Deviation from their sources: servers that are full or down are not picked. The sources' servers
//! have infinite queues and never fail.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::pick::{NewPick, Pick, Wanted};
use crate::Rng;
use crate::descriptor::{Compiled, Descriptor, Needs};
use crate::id::ServerId;
use crate::levels::Levels;

/// `random`: a random server.
///
/// Source: document 001 §2.4 "Random". Cost: O(1).
pub static RANDOM: Descriptor<NewPick> =
    Descriptor::pick("random", "a random server", |_| Needs::NOTHING, |_, _| Box::new(Random));

/// `round-robin`: the servers of a group in turn, without those that cannot take a copy.
///
/// Source: the default of most proxies. Cost: O(1), plus O(1) per skipped server.
pub static ROUND_ROBIN: Descriptor<NewPick> = Descriptor::pick(
    "round-robin",
    "the servers in turn",
    |_| Needs::NOTHING,
    |_, site| Box::new(RoundRobin { turn: vec![0; site.topology.groups.len()] }),
);

/// `least-outstanding`, or join the shortest queue (JSQ): the server that holds the fewest copies.
///
/// Source: document 001 §2.4 "Join-shortest-queue (JSQ)". Cost: O(1); see [`Levels::least`].
///
/// With a gate of n, this is JBSQ(n). With a gate equal to each server's number of slots, it is
/// per-shard queuing (PSQ, JBSQ(1), 001 §2.4): if no server has room for a query, the query waits
/// in the cell, and waiting queries are served first come, first served. So the pull policies use
/// this pick behind a narrower gate.
pub static LEAST_OUTSTANDING: Descriptor<NewPick> = Descriptor::pick(
    "least-outstanding",
    "the server that holds the fewest copies",
    |_| Needs::NOTHING,
    |_, _| Box::new(LeastOutstanding),
);

/// `two-choices`: of two random servers, the one that holds fewer copies.
///
/// Source: the "power of two choices"; Envoy and many others call it "least request". Cost: O(1).
pub static TWO_CHOICES: Descriptor<NewPick> = Descriptor::pick(
    "two-choices",
    "of two random servers, the one that holds fewer copies",
    |_| Needs::NOTHING,
    |_, _| Box::new(TwoChoices),
);

#[derive(Debug)]
struct Random;

impl Pick for Random {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        levels.uniform(rng, copy.avoid)
    }
}

#[derive(Debug)]
struct RoundRobin {
    /// The index of the next server in turn, by group.
    turn: Vec<usize>,
}

impl Pick for RoundRobin {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, _: &mut Rng) -> Option<ServerId> {
        let servers = levels.servers();
        let turn = self.turn[copy.group.index()];
        let in_turn = (turn..servers.len()).chain(0..turn);
        let mut open = in_turn.filter(|&at| levels.is_available(servers[at]));
        let next = open.find(|&at| !copy.avoid.contains(servers[at]))?;
        self.turn[copy.group.index()] = (next + 1) % servers.len();
        Some(servers[next])
    }
}

/// The pick `least-outstanding`. Cells are compiled for it.
#[derive(Debug)]
pub struct LeastOutstanding;

impl Pick for LeastOutstanding {
    #[inline(always)]
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        levels.least(rng, copy.avoid)
    }
}

impl Compiled for LeastOutstanding {
    const NEEDS: Option<Needs> = Some(Needs::NOTHING);
}

#[derive(Debug)]
struct TwoChoices;

impl Pick for TwoChoices {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        let [one, two] = levels.two(rng, copy.avoid)?;
        Some(if levels.level(two) < levels.level(one) { two } else { one })
    }
}
