//! Prequal: probes that are sent ahead of need, and of those answered the server that is not among the busiest and
//! answers the fastest.
//!
//! Source: Wydrowski et al., "Load is not what you should balance: introducing Prequal", NSDI 2024, §4. With
//! each query go [`PROBES`] probes to servers of its group at random; what they say (requests in flight, and
//! the latency of late at about as many) is kept. A server is *hot* if more is in flight there than the
//! quantile [`HOT`] of what probes have said. Of the cold ones the fastest is taken; where all are hot, the one
//! with the least in flight (hot–cold lexicographic). Cost: O(servers of the group).
//!
//! - A result is used up to [`MOST_USES`] times, and each use counts one more in flight there; it is thrown away
//!   after [`OLD_NS`].
//! - With fewer than two results, a server at random.
//!
//! Deviations: the newest result of each server in place of a pool of 16, of which the source throws the worst and
//! the oldest away: groups here are small, share servers, and so share results; a fixed number of uses where the
//! source computes one from the sizes of the pool and the service; a server that failed last is hot, where the
//! source has heuristics of its own against sinkholes.

use alloc::vec;
use alloc::vec::Vec;

use super::Pick;
use crate::Rng;
use crate::event::Probed;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// r_probe: probes per query.
const PROBES: usize = 3;

const MOST_USES: u8 = 2;

const OLD_NS: u64 = 1_000_000_000;

/// A server that failed is hot for this long, and then tried again.
const FAILED_NS: u64 = 10_000_000_000;

/// Q_RIF.
const HOT: f64 = 0.84;

/// By so much of the way does a result move the estimate of that quantile.
const STEP: f64 = 0.05;

#[derive(Clone, Copy, Debug)]
struct Heard {
    in_flight: u32,
    latency_ns: u64,
    at: Timestamp,
    /// How often it may be used.
    uses: u8,
    /// Until when the server is hot because it failed or refused last.
    failed: Timestamp,
}

const NOTHING: Heard =
    Heard { in_flight: 0, latency_ns: 0, at: Timestamp::NEVER, uses: 0, failed: Timestamp(0) };

/// Hot–cold lexicographic choice among the results of probes.
#[derive(Clone, Debug)]
pub struct Prequal {
    /// By server: the newest result.
    heard: Vec<Heard>,
    /// An estimate of the quantile of requests in flight.
    hot: f64,
}

impl Prequal {
    /// For so many servers.
    #[must_use]
    pub fn new(servers: usize) -> Self {
        Self { heard: vec![NOTHING; servers], hot: 0.0 }
    }

    /// By this the better of two servers is less; none without a result.
    fn rank(&self, server: ServerId, now: Timestamp) -> Option<(bool, u64)> {
        let Heard { in_flight, latency_ns, at, uses, failed } = self.heard[server.index()];
        let hot = f64::from(in_flight) > self.hot || failed > now;
        let rank = if hot { (true, in_flight.into()) } else { (false, latency_ns) };
        (uses > 0 && now.since(at) < OLD_NS).then_some(rank)
    }
}

impl Pick for Prequal {
    const OBSERVES: bool = true;

    fn pick(
        &mut self,
        _: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId> {
        let (mut best, mut results) = (None, 0);
        for server in levels.available().filter(|&server| !avoid.contains(server)) {
            let Some(rank) = self.rank(server, levels.now()) else { continue };
            results += 1;
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, server));
            }
        }
        let (Some((_, server)), true) = (best, results >= 2) else {
            return levels.uniform(rng, avoid);
        };
        let heard = &mut self.heard[server.index()];
        heard.in_flight = heard.in_flight.saturating_add(1);
        heard.uses -= 1;
        Some(server)
    }

    fn probes(&mut self, levels: Levels<'_>, rng: &mut Rng, mut probe: impl FnMut(ServerId)) {
        let mut asked = Avoid::NONE;
        for round in 0..PROBES.min(levels.servers().len()) {
            let Some(server) = levels.uniform(rng, asked) else { return };
            probe(server);
            // As many as can be avoided; further ones may repeat the first.
            asked.0[round % 2] = Some(server);
        }
    }

    fn probed(&mut self, now: Timestamp, probed: Probed) {
        let Probed { server, in_flight, latency_ns } = probed;
        let Some(heard) = self.heard.get_mut(server.index()) else { return };
        *heard = Heard { in_flight, latency_ns, at: now, uses: MOST_USES, failed: heard.failed };
        // A quantile by steps: up where more is in flight, down where less, in the ratio of its odds.
        let size = STEP * self.hot.max(1.0);
        let above = f64::from(in_flight) > self.hot;
        self.hot += if above { size * HOT } else { -size * (1.0 - HOT) };
        self.hot = self.hot.max(0.0);
    }

    fn ended(&mut self, server: ServerId, now: Timestamp, _: u64, outcome: Option<Outcome>) {
        let failed = match outcome {
            Some(Outcome::Good | Outcome::Request) => now,
            Some(Outcome::Refused | Outcome::Failed(_)) => now.after(FAILED_NS),
            Some(Outcome::Local | Outcome::OverLimit) | None => return,
        };
        self.heard[server.index()].failed = failed;
    }

    fn restored(&mut self, server: ServerId) {
        self.heard[server.index()] = NOTHING;
    }
}
