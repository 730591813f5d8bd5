//! Round robin: the servers of a group in turn, passing over those that can take nothing.
//!
//! Source: the default of most proxies. Cost: O(1), plus the servers passed over.

use alloc::vec;
use alloc::vec::Vec;

use super::Pick;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};

/// The servers of a group in turn.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    /// By group: whose turn it is.
    turn: Vec<usize>,
}

impl RoundRobin {
    /// For so many groups.
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
