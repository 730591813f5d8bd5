//! Picks that rank servers by the averages of [`Seen`], as C3 does.

use alloc::boxed::Box;

use crate::Rng;
use crate::balance::{NewPick, Pick, Seen, Wanted, psi};
use crate::descriptor::{Descriptor, Needs};
use crate::id::ServerId;
use crate::levels::Levels;
use crate::time::Timestamp;
use rand_core::Rng as _;

const COPIES: Needs = Needs { copies: true, ..Needs::NOTHING };
const FEEDBACK: Needs = Needs { feedback: true, ..COPIES };

/// `c3-two-choices`: of two random servers, the one with the lower C3 score. This score does not
/// count the client's own copies.
///
/// Source: document 002 §4.4.2, "2C": the baseline that shows the value of C3's concurrency
/// compensation. It uses the same rate limits as C3. Cost: O(1).
pub static C3_TWO_CHOICES: Descriptor<NewPick> = Descriptor::pick(
    "c3-two-choices",
    "of two random servers, the one with the lower C3 score",
    |_| Needs { waiting: true, ..FEEDBACK },
    |_, site| Box::new(C3TwoChoices(Seen::of(site))),
);

/// `least-response-time`: the server with the fastest recent responses.
///
/// Source: document 002 §4.4.2, which names it among the strategies that "did not fare well". It is
/// also a common option in proxies. It ignores queues and even the client's own copies, so all
/// clients choose the same server. Cost: O(servers).
pub static LEAST_RESPONSE_TIME: Descriptor<NewPick> = Descriptor::pick(
    "least-response-time",
    "the server with the fastest recent responses",
    |_| COPIES,
    |_, site| Box::new(LeastResponseTime(Seen::of(site))),
);

/// `weighted-random`: a random server, weighted by how soon it should finish a request.
///
/// Source: document 002 §4.4.2, which names "variations of weighted random". Here the weight is 1 /
/// ((1 + queue) × service time), as estimated from feedback. Cost: O(servers).
pub static WEIGHTED_RANDOM: Descriptor<NewPick> = Descriptor::pick(
    "weighted-random",
    "a random server, weighted by feedback",
    |_| FEEDBACK,
    |_, site| Box::new(WeightedRandom(Seen::of(site))),
);

/// `els`: the server for which (own copies + 1)ᵇ times the average response time is lowest. The own
/// copies are those that this client has sent.
///
/// Source: document 002 §4.5, which describes Spotify's expected latency selector. Like C3, it
/// penalizes long queues, but it uses only what the client itself measures. Cost: O(servers).
pub static ELS: Descriptor<NewPick> = Descriptor::pick(
    "els",
    "the server with the lowest expected latency",
    |_| COPIES,
    |_, site| Box::new(Els(Seen::of(site))),
);

#[derive(Debug)]
struct C3TwoChoices(Seen);

impl Pick for C3TwoChoices {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        let [one, two] = levels.two(rng, copy.avoid)?;
        let exponent = self.0.tuning.score_exponent;
        let score = |server| psi(&self.0.estimate(server, levels.now()), 0.0, exponent);
        Some(if score(two) < score(one) { two } else { one })
    }

    fn seen(&mut self) -> Option<&mut Seen> {
        Some(&mut self.0)
    }
}

#[derive(Debug)]
struct LeastResponseTime(Seen);

impl Pick for LeastResponseTime {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        let response_ns = |server| self.0.estimate(server, levels.now()).response_ns;
        levels.least_by(rng, copy.avoid, response_ns)
    }

    fn seen(&mut self) -> Option<&mut Seen> {
        Some(&mut self.0)
    }
}

#[derive(Debug)]
struct WeightedRandom(Seen);

impl WeightedRandom {
    fn weight(&self, server: ServerId, now: Timestamp) -> f64 {
        let estimate = self.0.estimate(server, now);
        1.0 / ((1.0 + estimate.queue) * estimate.service_ns)
    }
}

impl Pick for WeightedRandom {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        let now = levels.now();
        let (mut chosen, mut sum) = (None, 0.0);
        for server in levels.available().filter(|&server| !copy.avoid.contains(server)) {
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
        Some(&mut self.0)
    }
}

#[derive(Debug)]
struct Els(Seen);

impl Pick for Els {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        levels.least_by(rng, copy.avoid, |server| {
            let there = f64::from(levels.outstanding(server) + 1);
            let response_ns = self.0.estimate(server, levels.now()).response_ns.max(1.0);
            (0..self.0.tuning.score_exponent).fold(response_ns, |score, _| score * there)
        })
    }

    fn seen(&mut self) -> Option<&mut Seen> {
        Some(&mut self.0)
    }
}
