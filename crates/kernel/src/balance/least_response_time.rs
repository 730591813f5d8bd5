//! Least response time: the server whose responses have been the fastest of late.
//!
//! Source: document 002 §4.4.2 names it among the strategies that "did not fare well"; a common option of proxies.
//! It knows of no queue, its own copies included, so clients go to the same server together. Cost: O(servers).

use super::Pick;
use super::seen::Seen;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};
use crate::tuning::Tuning;

/// The server with the least average response time.
#[derive(Clone, Debug)]
pub struct LeastResponseTime {
    seen: Seen,
}

impl LeastResponseTime {
    /// For so many servers.
    #[must_use]
    pub fn new(servers: usize, tuning: Tuning) -> Self {
        Self { seen: Seen::new(servers, tuning) }
    }
}

impl Pick for LeastResponseTime {
    const OBSERVES: bool = true;

    fn pick(
        &mut self,
        _: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId> {
        levels.least_by(rng, avoid, |server| self.seen.estimate(server, levels.now()).response_ns)
    }

    fn seen(&mut self) -> Option<&mut Seen> {
        Some(&mut self.seen)
    }
}
