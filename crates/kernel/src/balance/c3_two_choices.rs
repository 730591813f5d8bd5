//! Two choices by score: draws two random servers and picks the one with the lower C3 score. This
//! score does not count the client's own copies.
//!
//! Source: document 002 §4.4.2, "2C": the baseline that shows the value of C3's concurrency
//! compensation. It uses the same rate limits as C3. Cost: O(1).

use super::Pick;
use super::c3::psi;
use super::seen::Seen;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};
use crate::tuning::Tuning;

/// A pick that draws two random servers and chooses the one with the lower score from feedback.
#[derive(Clone, Debug)]
pub struct C3TwoChoices {
    seen: Seen,
}

impl C3TwoChoices {
    /// Creates a pick for this number of servers.
    #[must_use]
    pub fn new(servers: usize, tuning: Tuning) -> Self {
        Self { seen: Seen::new(servers, tuning) }
    }
}

impl Pick for C3TwoChoices {
    const OBSERVES: bool = true;
    const READS_FEEDBACK: bool = true;

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
