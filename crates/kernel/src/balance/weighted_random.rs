//! Weighted random: picks a random server, weighted by how soon it should finish a request.
//!
//! Source: document 002 §4.4.2, which names "variations of weighted random". Here the weight is 1 /
//! ((1 + queue) × service time), as estimated from feedback. Cost: O(servers).

use super::Pick;
use super::seen::Seen;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};
use crate::time::Timestamp;
use crate::tuning::Tuning;
use rand_core::Rng as _;

/// A pick that chooses a random server, weighted by feedback.
#[derive(Clone, Debug)]
pub struct WeightedRandom {
    seen: Seen,
}

impl WeightedRandom {
    /// Creates a pick for this number of servers.
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
    const READS_FEEDBACK: bool = true;

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
            // Weighted reservoir sampling: each server replaces the chosen one with a probability
            // that is its own weight divided by the sum of all weights up to and including its own.
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
