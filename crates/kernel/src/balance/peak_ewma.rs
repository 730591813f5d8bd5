//! Peak EWMA: draws two random servers and picks the one with the lower cost. The cost of a server
//! is its average response time, times the number of copies that it would hold.
//!
//! Source: Twitter Finagle, `com.twitter.finagle.loadbalancer.PeakEwma`; also in Linkerd and tower.
//! The average of response times decays exponentially with time, not with the number of responses.
//! It jumps to a higher response time immediately. So a server that becomes slow is avoided
//! immediately, but is tried again only after a while. Cost: O(1).
//!
//! Choices:
//! - A server without samples has no cost while it is idle, so that it is tried. While it holds a
//!   copy, it has the highest cost of all servers.
//! - A failure or a refusal is not a fast response: it can raise the average, but never lower it.
//!   Copies that were stopped or lost are treated in the same way. Responses that concern only the
//!   request are not samples, and neither are copies that ended on our side.
//! - The time of a copy is measured until its slot is free, so it includes the body of the
//!   response.
//!
//! Deviation: the average also decays when it is read, not only when a response arrives. So a
//! server that was slow once is tried again after a few multiples of [`DECAY_NS`].

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::pick::{Ended, NewPick, Pick, Wanted};
use crate::Rng;
use crate::descriptor::{Descriptor, Needs};
use crate::id::ServerId;
use crate::levels::Levels;
use crate::math::decay;
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// `peak-ewma`
pub static PEAK_EWMA: Descriptor<NewPick> = Descriptor::pick(
    "peak-ewma",
    "of two random servers, the one with the lower response time × copies",
    |_| Needs { copies: true, ..Needs::NOTHING },
    |_, site| Box::new(PeakEwma::new(site.topology.servers.len())),
);

/// The time, in ns, in which an average decays to 1/e of its value if no response arrives. This is
/// Finagle's default.
const DECAY_NS: f64 = 10e9;

/// The cost of a server that holds copies and has no samples.
const UNKNOWN: f64 = 1e18;

#[derive(Clone, Copy, Debug, Default)]
struct Average {
    /// The average in ns, at the time `seen`. It is 0 before the first response.
    ns: f64,
    seen: Timestamp,
}

impl Average {
    /// Returns the average, decayed until now.
    fn at(&self, now: Timestamp) -> f64 {
        self.ns * self.weight(now)
    }

    fn weight(&self, now: Timestamp) -> f64 {
        decay(now.since(self.seen) as f64 / DECAY_NS)
    }

    fn observe(&mut self, now: Timestamp, took_ns: f64, may_lower: bool) {
        let weight = self.weight(now);
        let left = self.ns * weight;
        if took_ns > left {
            self.ns = took_ns;
        } else if may_lower {
            self.ns = left + took_ns * (1.0 - weight);
        } else {
            return;
        }
        self.seen = now;
    }
}

#[derive(Debug)]
struct PeakEwma {
    /// The average response time of each server.
    averages: Vec<Average>,
}

impl PeakEwma {
    fn new(servers: usize) -> Self {
        Self { averages: vec![Average::default(); servers] }
    }

    /// The mean of the averages of all other servers, in ns. It is 0 if no other server has an
    /// average.
    fn peers(&self, server: ServerId, now: Timestamp) -> f64 {
        let others = self.averages.iter().enumerate().filter(|&(at, _)| at != server.index());
        let known = others.map(|(_, average)| average.at(now)).filter(|&ns| ns > 0.0);
        let (sum, count) = known.fold((0.0, 0.0), |(sum, count), ns| (sum + ns, count + 1.0));
        if count > 0.0 { sum / count } else { 0.0 }
    }

    fn cost(&self, server: ServerId, levels: Levels<'_>) -> f64 {
        let average = &self.averages[server.index()];
        let copies = f64::from(levels.outstanding(server));
        if average.ns == 0.0 && copies > 0.0 {
            return UNKNOWN + copies;
        }
        average.at(levels.now()) * (copies + 1.0)
    }
}

impl Pick for PeakEwma {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        let [one, two] = levels.two(rng, copy.avoid)?;
        Some(if self.cost(two, levels) < self.cost(one, levels) { two } else { one })
    }

    fn ended(&mut self, copy: Ended) {
        let Ended { server, now, took_ns, outcome, .. } = copy;
        let took_ns = took_ns as f64;
        let (took_ns, may_lower) = match outcome {
            Some(Outcome::Good) => (took_ns, true),
            // The averages of the other servers contain peaks, so their mean may exceed a typical
            // response time. A failed copy therefore counts as at least that mean.
            Some(Outcome::Refused | Outcome::Failed(_)) => {
                (took_ns.max(self.peers(server, now)), false)
            }
            None => (took_ns, false),
            Some(Outcome::Request | Outcome::Local | Outcome::OverLimit) => return,
        };
        self.averages[server.index()].observe(now, took_ns, may_lower);
    }

    fn forget(&mut self, server: ServerId) {
        self.averages[server.index()] = Average::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Fault;

    const S: u64 = 1_000_000_000;

    #[test]
    fn an_average_jumps_up_and_decays_with_time() {
        let mut average = Average::default();
        average.observe(Timestamp(0), 5e6, true);
        assert_eq!(average.ns, 5e6);
        average.observe(Timestamp(1), 80e6, true);
        assert_eq!(average.ns, 80e6, "at once");
        average.observe(Timestamp(1), 5e6, true);
        assert_eq!(average.ns, 80e6, "no time has passed");
        average.observe(Timestamp(10 * S + 1), 5e6, true);
        let expected = 80e6 * (-1f64).exp() + 5e6 * (1.0 - (-1f64).exp());
        assert!((average.ns - expected).abs() < 1.0, "{}", average.ns);
        assert!(average.at(Timestamp(200 * S)) < 1.0, "forgotten, so used again");
    }

    #[test]
    fn a_fast_failure_lowers_nothing_and_a_slow_one_raises() {
        let mut pick = PeakEwma::new(1);
        let server = ServerId(0);
        let average = |pick: &PeakEwma| pick.averages[0].at(Timestamp(10 * S));
        let end = |pick: &mut PeakEwma, now, took_ns, outcome| {
            pick.ended(Ended { server, now: Timestamp(now), took_ns, outcome, bytes: 0 });
        };
        end(&mut pick, 0, 50_000_000, Some(Outcome::Good));
        let before = average(&pick);
        let failed = Some(Outcome::Failed(Fault::ConnectFailed));
        for outcome in [Some(Outcome::Refused), failed, Some(Outcome::Request), None] {
            end(&mut pick, 10 * S, 1, outcome);
            assert_eq!(average(&pick), before);
        }
        end(&mut pick, 10 * S, 900_000_000, None);
        assert_eq!(average(&pick), 9e8);
        end(&mut pick, 10 * S, 2_000_000_000, Some(Outcome::Local));
        assert_eq!(average(&pick), 9e8);
    }
}
