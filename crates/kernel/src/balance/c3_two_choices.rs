//! Two choices on feedback: of two servers at random, the one with the lower score of C3, without counting the
//! client's own copies.
//!
//! Source: document 002 §4.4.2, "2C": what C3 is compared with, to show what its concurrency compensation is
//! worth. Behind the same rates as C3. Cost: O(1).

use super::Pick;
use super::c3::psi;
use super::seen::Seen;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};
use crate::tuning::Tuning;

/// Of two servers at random, the one with the lower score from feedback.
#[derive(Clone, Debug)]
pub struct C3TwoChoices {
    seen: Seen,
}

impl C3TwoChoices {
    /// For so many servers.
    #[must_use]
    pub fn new(servers: usize, tuning: Tuning) -> Self {
        Self { seen: Seen::new(servers, tuning) }
    }
}

impl Pick for C3TwoChoices {
    const OBSERVES: bool = true;

    fn pick(
        &mut self,
        _: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId> {
        let [one, two] = levels.two(rng, avoid)?;
        let exponent = self.seen.tuning.score_exponent;
        let score = |server| psi(&self.seen.estimate(server, levels.now()), 0.0, exponent);
        Some(if score(two) < score(one) { two } else { one })
    }

    fn ranks(&self) -> bool {
        true
    }

    fn seen(&mut self) -> Option<&mut Seen> {
        Some(&mut self.seen)
    }
}
