//! Least response time: picks the server with the fastest recent responses.
//!
//! Source: document 002 §4.4.2, which names it among the strategies that "did not fare well". It is
//! also a common option in proxies. It ignores queues and even the client's own copies, so all
//! clients choose the same server. Cost: O(servers).

use super::Pick;
use super::seen::Seen;
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};
use crate::tuning::Tuning;

/// A pick that chooses the server with the lowest average response time.
#[derive(Clone, Debug)]
pub struct LeastResponseTime {
    seen: Seen,
}

impl LeastResponseTime {
    /// Creates a pick for this number of servers.
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
