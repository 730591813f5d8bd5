//! C3: the server with the least score, from its feedback, its response times and the copies that this
//! client has there.
//!
//! Source: document 002 §4.2.1. Ψ = R̄ − 1/μ̄ + q̂ᵇ/μ̄ with q̂ = 1 + os·n + q̄: the client's own
//! copies count once for each of the n clients, so that clients which send more rank a server lower, and do
//! not all go to the same one; and the exponent b makes a long queue worse than a slow server.
//! Cost: O(servers of the group).
//!
//! With the rates of [`crate::rate`] it is Algorithm 1: the best server that has a token, and where none
//! has, the query waits until one does. Ties at random.

use super::Pick;
use super::seen::{Estimate, Seen};
use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};
use crate::tuning::Tuning;

/// The server with the least score.
#[derive(Clone, Debug)]
pub struct C3 {
    seen: Seen,
}

impl C3 {
    /// For so many servers.
    #[must_use]
    pub fn new(servers: usize, tuning: Tuning) -> Self {
        Self { seen: Seen::new(servers, tuning) }
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
    let Estimate { response_ns, queue, service_ns } = *estimate;
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
        levels.least_by(rng, avoid, |server| self.psi(server, levels))
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
