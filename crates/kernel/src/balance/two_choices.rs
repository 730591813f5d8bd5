//! Two choices: of two servers at random, the one that holds fewer copies.
//!
//! Source: the "power of two choices"; what Envoy and many others ship as "least request".
//! Ties at random. Cost: O(1).

use super::Pick;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};

/// Of two servers at random, the one that holds fewer copies.
#[derive(Clone, Debug, Default)]
pub struct TwoChoices;

impl Pick for TwoChoices {
    #[inline]
    fn pick(
        &mut self,
        _: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId> {
        let one = levels.uniform(rng, avoid)?;
        // Drawn without replacement, but for what must avoid two servers already: that may draw the
        // same one twice.
        let others = match avoid.0 {
            [first, None] | [None, first] => Avoid([first, Some(one)]),
            both => Avoid(both),
        };
        let two = levels.uniform(rng, others).unwrap_or(one);
        Some(if levels.level(two) < levels.level(one) { two } else { one })
    }
}
