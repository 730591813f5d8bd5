//! Weighted random: a server at random, the more often the sooner it should be done with a request.
//!
//! Source: document 002 §4.4.2 names "variations of weighted random"; this one weighs by the inverse of what
//! is there by the feedback, times the service time. Cost: O(servers).

use super::Pick;
use super::seen::Seen;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};
use crate::time::Timestamp;
use crate::tuning::Tuning;
use rand_core::Rng as _;

/// A server at random, weighted by feedback.
#[derive(Clone, Debug)]
pub struct WeightedRandom {
    seen: Seen,
}

impl WeightedRandom {
    /// For so many servers.
    #[must_use]
    pub fn new(servers: usize, tuning: Tuning) -> Self {
        Self { seen: Seen::new(servers, tuning) }
    }

    fn weight(&self, server: ServerId, now: Timestamp) -> f64 {
        let estimate = self.seen.estimate(server, now);
        1.0 / ((1.0 + estimate.queue) * estimate.service_ns)
    }
}

impl Pick for WeightedRandom {
    const OBSERVES: bool = true;

    fn pick(
        &mut self,
        _: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId> {
        let now = levels.now();
        let (mut chosen, mut sum) = (None, 0.0);
        for server in levels.available().filter(|&server| !avoid.contains(server)) {
            let weight = self.weight(server, now);
            sum += weight;
            // Each stays with a chance of its weight over that of those before it and its own.
            let draw = f64::from(rng.next_u32()) / f64::from(u32::MAX);
            if chosen.is_none() || draw * sum < weight {
                chosen = Some(server);
            }
        }
        chosen
    }

    fn seen(&mut self) -> Option<&mut Seen> {
        Some(&mut self.seen)
    }
}
