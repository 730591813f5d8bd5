//! Least outstanding, or join the shortest queue (JSQ): picks the server that holds the fewest
//! copies.
//!
//! Source: document 001 §2.4 "Join-shortest-queue (JSQ)". Ties are broken at random. Cost: O(1);
//! see [`Levels::least`].
//!
//! With a gate of n, this is JBSQ(n). With a gate equal to each server's number of slots, it is
//! per-shard queuing (PSQ, JBSQ(1), 001 §2.4): if no server has room for a query, the query waits
//! in the cell, and waiting queries are served first come, first served. So the pull policies use
//! this pick behind a narrower gate.

use super::Pick;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};

/// A pick that chooses the server that holds the fewest copies.
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
