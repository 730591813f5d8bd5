//! Two choices: draws two random servers and picks the one that holds fewer copies.
//!
//! Source: the "power of two choices"; Envoy and many others call it "least request". Ties are
//! broken at random. Cost: O(1).

use super::Pick;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};

/// A pick that draws two random servers and chooses the one that holds fewer copies.
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
        let [one, two] = levels.two(rng, avoid)?;
        Some(if levels.level(two) < levels.level(one) { two } else { one })
    }
}
