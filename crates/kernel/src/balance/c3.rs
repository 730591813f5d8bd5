//! C3: picks the server with the lowest score. The score is computed from the server's feedback,
//! its response times, and the number of copies that this client has at the server.
//!
//! Source: document 002 §4.2.1. Ψ = R̄ − 1/μ̄ + q̂ᵇ/μ̄ with q̂ = 1 + os·n + q̄. Each of the
//! client's own copies counts n times, where n is the number of clients. So the more copies a
//! client has sent to a server, the lower it ranks that server, and the clients do not all choose
//! the same server. The exponent b penalizes a long queue more than a slow server. Cost: O(servers
//! of the group).
//!
//! Together with the rate limits of [`crate::rate`], this is Algorithm 1, which picks the best
//! server that has a token. If no server has a token, the query waits. Among servers with equal
//! scores it picks the least recently used one, to even out their load.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::pick::{NewPick, Pick, Wanted};
use super::seen::{Estimate, Seen};
use crate::Rng;
use crate::descriptor::{Descriptor, Needs};
use crate::id::ServerId;
use crate::levels::Levels;
use crate::time::Timestamp;
use crate::tuning::Tuning;

/// `c3`
pub static C3: Descriptor<NewPick> = Descriptor::pick(
    "c3",
    "the server with the lowest score, computed from feedback and response times",
    |_| Needs { copies: true, feedback: true, clients: true, waiting: true, ..Needs::NOTHING },
    |_, site| {
        let sent = vec![Timestamp::default(); site.topology.servers.len()];
        Box::new(LowestScore { seen: Seen::of(site), sent })
    },
);

#[derive(Debug)]
struct LowestScore {
    seen: Seen,
    /// The time of the last copy sent to each server.
    sent: Vec<Timestamp>,
}

impl LowestScore {
    /// Returns Ψ of a server, in ns.
    fn psi(&self, server: ServerId, levels: Levels<'_>) -> f64 {
        let Tuning { clients, score_exponent, .. } = self.seen.tuning;
        let own = f64::from(levels.outstanding(server)) * f64::from(clients);
        psi(&self.seen.estimate(server, levels.now()), own, score_exponent)
    }
}

/// Returns Ψ of a server for one client. `own` is the weighted number of the client's copies at the
/// server.
pub(crate) fn psi(estimate: &Estimate, own: f64, exponent: u32) -> f64 {
    let Estimate { response_ns, queue, service_ns, floor_ns } = *estimate;
    let (response_ns, service_ns) = (response_ns.max(floor_ns), service_ns.max(floor_ns));
    let expected = 1.0 + own + queue;
    let penalty = (1..exponent).fold(expected, |power, _| power * expected);
    response_ns - service_ns + penalty * service_ns
}

impl Pick for LowestScore {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        let rank = |server: ServerId| (self.psi(server, levels), self.sent[server.index()]);
        levels.least_by(rng, copy.avoid, rank)
    }

    fn started(&mut self, server: ServerId, now: Timestamp) {
        self.sent[server.index()] = now;
    }

    fn forget(&mut self, server: ServerId) {
        self.seen.restored(server);
        self.sent[server.index()] = Timestamp::default();
    }

    fn score(&self, server: ServerId, levels: Levels<'_>) -> Option<f64> {
        Some(self.psi(server, levels))
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
        // The scores Ψ of two servers that take 4 ms and 20 ms, for q̂ = `expected`.
        let fast = |expected: f64, b| psi(&of(expected, 4e6), 0.0, b);
        let slow = |expected: f64, b| psi(&of(expected, 20e6), 0.0, b);
        assert_eq!(fast(100.0, 1), slow(20.0, 1), "published: 100 beside 20");
        for b in [2, 3, 4] {
            // As in the paper, the scores are equal if the number of requests at the fast server is
            // the b-th root of 20/4 times the number at the slow one. For b = 3, these numbers are
            // 34.2 and 20.
            let root = [0.0, 0.0, 2.23607, 1.70998, 1.49535][b as usize];
            let ratio = fast(20.0 * root, b) / slow(20.0, b);
            assert!((ratio - 1.0).abs() < 1e-4, "b = {b}: {ratio}");
        }
        assert!(fast(34.0, 3) < slow(20.0, 3) && slow(20.0, 3) < fast(35.0, 3));
        // §4.2.1: if nothing is queued or outstanding, Ψ is the response time.
        let idle = Estimate { response_ns: 7e6, queue: 0.0, service_ns: 4e6, floor_ns: 0.0 };
        assert_eq!(psi(&idle, 0.0, 3), 7e6);
    }

    #[test]
    fn servers_without_feedback_differ_by_much_or_not_at_all() {
        let silent = |ns: f64| psi(&Estimate { floor_ns: 10e6, ..of(1.0, ns) }, 1.0, 3);
        assert_eq!(silent(4e6), silent(9e6));
        assert!(silent(11e6) > silent(9e6));
    }

    fn of(expected: f64, service_ns: f64) -> Estimate {
        Estimate { response_ns: service_ns, queue: expected - 1.0, service_ns, floor_ns: 0.0 }
    }
}
