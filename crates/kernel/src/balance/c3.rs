//! C3: the server with the least score, from its feedback, its response times and the copies that this
//! client has there.
//!
//! Source: document 002 §4.2.1. Ψ = R̄ − 1/μ̄ + q̂ᵇ/μ̄ with q̂ = 1 + os·n + q̄: the client's own
//! copies count once for each of the n clients, so that clients which send more rank a server lower, and do
//! not all go to the same one; and the exponent b makes a long queue worse than a slow server.
//! Cost: O(servers of the group).
//!
//! With the rates of [`crate::rate`] it is Algorithm 1: the best server that has a token, and where none
//! has, the query waits until one does. Of equals, the one that was sent to longest ago: their load is even.

use alloc::vec;
use alloc::vec::Vec;

use super::Pick;
use super::seen::{Estimate, Seen};
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};
use crate::time::Timestamp;
use crate::tuning::Tuning;

/// The server with the least score.
#[derive(Clone, Debug)]
pub struct C3 {
    seen: Seen,
    /// When each server was sent to last.
    sent: Vec<Timestamp>,
}

impl C3 {
    /// For so many servers.
    #[must_use]
    pub fn new(servers: usize, tuning: Tuning) -> Self {
        Self { seen: Seen::new(servers, tuning), sent: vec![Timestamp::default(); servers] }
    }

    /// Ψ of a server, in ns.
    fn psi(&self, server: ServerId, levels: Levels<'_>) -> f64 {
        let Tuning { clients, score_exponent, .. } = *self.seen.tuning;
        let own = f64::from(levels.outstanding(server)) * f64::from(clients);
        psi(&self.seen.estimate(server, levels.now()), own, score_exponent)
    }
}

/// Ψ, with so many copies of this client's.
pub(super) fn psi(estimate: &Estimate, own: f64, exponent: u32) -> f64 {
    let Estimate { response_ns, queue, service_ns, floor_ns } = *estimate;
    let (response_ns, service_ns) = (response_ns.max(floor_ns), service_ns.max(floor_ns));
    let expected = 1.0 + own + queue;
    let penalty = (1..exponent).fold(expected, |power, _| power * expected);
    response_ns - service_ns + penalty * service_ns
}

impl Pick for C3 {
    const OBSERVES: bool = true;

    fn pick(
        &mut self,
        _: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId> {
        let rank = |server: ServerId| (self.psi(server, levels), self.sent[server.index()]);
        levels.least_by(rng, avoid, rank)
    }

    fn started(&mut self, server: ServerId, now: Timestamp) {
        self.sent[server.index()] = now;
    }

    fn score(&self, server: ServerId, levels: Levels<'_>) -> Option<f64> {
        Some(self.psi(server, levels))
    }

    fn ranks(&self) -> bool {
        true
    }

    fn seen(&mut self) -> Option<&mut Seen> {
        Some(&mut self.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_4_4_equal_scores() {
        // Ψ where q̂ is so much, of servers that take 4 and 20 ms.
        let fast = |expected: f64, b| psi(&of(expected, 4e6), 0.0, b);
        let slow = |expected: f64, b| psi(&of(expected, 20e6), 0.0, b);
        assert_eq!(fast(100.0, 1), slow(20.0, 1), "published: 100 beside 20");
        for b in [2, 3, 4] {
            // Published: the b-th root of 20/4 times as much; for b = 3 that is 34.2.
            let root = [0.0, 0.0, 2.23607, 1.70998, 1.49535][b as usize];
            let ratio = fast(20.0 * root, b) / slow(20.0, b);
            assert!((ratio - 1.0).abs() < 1e-4, "b = {b}: {ratio}");
        }
        assert!(fast(34.0, 3) < slow(20.0, 3) && slow(20.0, 3) < fast(35.0, 3));
        // §4.2.1: with nothing there, and nothing outstanding, it is the response time.
        let idle = Estimate { response_ns: 7e6, queue: 0.0, service_ns: 4e6, floor_ns: 0.0 };
        assert_eq!(psi(&idle, 0.0, 3), 7e6);
    }

    #[test]
    fn servers_that_say_nothing_differ_by_much_or_not_at_all() {
        let silent = |ns: f64| psi(&Estimate { floor_ns: 10e6, ..of(1.0, ns) }, 1.0, 3);
        assert_eq!(silent(4e6), silent(9e6));
        assert!(silent(11e6) > silent(9e6));
    }

    fn of(expected: f64, service_ns: f64) -> Estimate {
        Estimate { response_ns: service_ns, queue: expected - 1.0, service_ns, floor_ns: 0.0 }
    }
}
