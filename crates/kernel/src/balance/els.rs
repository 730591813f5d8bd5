//! ELS-like: the server with the least (copies of this client's + 1)ᵇ, times its average response time.
//!
//! Source: document 002 §4.5, on the expected latency selector of Spotify: C3's penalty for long queues, with
//! what a client sees by itself. Cost: O(servers).

use super::Pick;
use super::seen::Seen;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};
use crate::tuning::Tuning;

/// The server with the least expected latency.
#[derive(Clone, Debug)]
pub struct Els {
    seen: Seen,
}

impl Els {
    /// For so many servers.
    #[must_use]
    pub fn new(servers: usize, tuning: Tuning) -> Self {
        Self { seen: Seen::new(servers, tuning) }
    }
}

impl Pick for Els {
    const OBSERVES: bool = true;

    fn pick(
        &mut self,
        _: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId> {
        levels.least_by(rng, avoid, |server| {
            let there = f64::from(levels.outstanding(server) + 1);
            let response_ns = self.seen.estimate(server, levels.now()).response_ns.max(1.0);
            (0..self.seen.tuning.score_exponent).fold(response_ns, |score, _| score * there)
        })
    }

    fn seen(&mut self) -> Option<&mut Seen> {
        Some(&mut self.seen)
    }
}
