//! ELS-like: picks the server for which (own copies + 1)ᵇ times the average response time is
//! lowest. The own copies are those that this client has sent.
//!
//! Source: document 002 §4.5, which describes Spotify's expected latency selector. Like C3, it
//! penalizes long queues, but it uses only what the client itself measures. Cost: O(servers).

use super::Pick;
use super::seen::Seen;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};
use crate::tuning::Tuning;

/// A pick that chooses the server with the lowest expected latency.
#[derive(Clone, Debug)]
pub struct Els {
    seen: Seen,
}

impl Els {
    /// Creates a pick for this number of servers.
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
