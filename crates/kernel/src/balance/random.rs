//! Random: picks a random server.
//!
//! Source: document 001 §2.4 "Random". Cost: O(1). Deviation: it does not draw servers that are
//! full or down. The source's servers have infinite queues and never fail.

use super::Pick;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};

/// A pick that chooses a random server.
#[derive(Clone, Debug, Default)]
pub struct Random;

impl Pick for Random {
    #[inline]
    fn pick(
        &mut self,
        _: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId> {
        levels.uniform(rng, avoid)
    }
}
