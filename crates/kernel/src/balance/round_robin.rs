//! Round robin: picks the servers of a group in turn, and skips those that cannot take a copy.
//!
//! Source: the default of most proxies. Cost: O(1), plus O(1) per skipped server.

use alloc::vec;
use alloc::vec::Vec;

use super::Pick;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};

/// A pick that chooses the servers of a group in turn.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    /// The index of the next server in turn, by group.
    turn: Vec<usize>,
}

impl RoundRobin {
    /// Creates a pick for this number of groups.
    #[must_use]
    pub fn new(groups: usize) -> Self {
        Self { turn: vec![0; groups] }
    }
}

impl Pick for RoundRobin {
    #[inline]
    fn pick(
        &mut self,
        group: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        _: &mut Rng,
    ) -> Option<ServerId> {
        let servers = levels.servers();
        let turn = self.turn[group.index()];
        let in_turn = (turn..servers.len()).chain(0..turn);
        let mut open = in_turn.filter(|&at| levels.is_available(servers[at]));
        let next = open.find(|&at| !avoid.contains(servers[at]))?;
        self.turn[group.index()] = (next + 1) % servers.len();
        Some(servers[next])
    }
}
