//! Least outstanding, or join the shortest queue (JSQ): the server that holds the fewest copies.
//!
//! Source: document 001 §2.4 "Join-shortest-queue (JSQ)". Ties at random. Cost: O(1); see
//! [`Levels::least`].
//!
//! With a gate of n it is JBSQ(n), and with the servers' slots as the gate it is per-shard queuing
//! (PSQ, JBSQ(1)): the queries that no server has room for wait in the cell, first come, first
//! served (001 §2.4). So the pull policies are this pick behind a narrower gate.

use super::Pick;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};

/// The server that holds the fewest copies.
#[derive(Clone, Debug, Default)]
pub struct LeastOutstanding;

impl Pick for LeastOutstanding {
    #[inline(always)]
    fn pick(
        &mut self,
        _: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId> {
        levels.least(rng, avoid)
    }
}
