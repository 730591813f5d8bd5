//! Prequal: probes servers before it needs to know their load. It rules out the servers that are
//! busiest according to the probe results, and picks the fastest of the others.
//!
//! Source: Wydrowski et al., "Load is not what you should balance: introducing Prequal", NSDI 2024,
//! §4. With each query, [`PROBES`] probes go to random servers of its group. Each result is kept.
//! It contains the number of requests in flight at the server, and the server's recent latency at
//! about that number. A server is *hot* if it has more requests in flight than the [`HOT`] quantile
//! of all results, and *cold* otherwise. The fastest cold server is picked. If all servers are hot,
//! the one with the fewest requests in flight is picked (hot–cold lexicographic). Cost: O(servers
//! of the group).
//!
//! - A result can be used [`MOST_USES`] times, and each use adds one to its number of requests in
//!   flight. It expires after [`OLD_NS`].
//! - With fewer than two results, a random server is picked.
//!
//! Deviations:
//! - It keeps the newest result of each server. The source keeps a pool of 16 results, and removes
//!   the worst and the oldest. In Curtail, groups are small and share servers, so they also share
//!   probe results.
//! - The number of times that a result may be used is fixed. The source computes it from the size
//!   of the pool and the number of servers.
//! - A server whose last copy failed counts as hot. The source uses its own heuristics to avoid
//!   sinkholes.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::pick::{Ended, NewPick, Pick, Wanted};
use crate::Rng;
use crate::descriptor::{Descriptor, Needs};
use crate::event::Probed;
use crate::id::ServerId;
use crate::levels::Levels;
use crate::order::Avoid;
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// `prequal`
pub static PREQUAL: Descriptor<NewPick> = Descriptor::pick(
    "prequal",
    "the fastest server among those that probes found not to be busy",
    |_| Needs { copies: true, probes: true, ..Needs::NOTHING },
    |_, site| Box::new(Prequal { newest: vec![NOTHING; site.topology.servers.len()], hot: 0.0 }),
);

/// r_probe: the number of probes per query.
const PROBES: usize = 3;

const MOST_USES: u8 = 2;

const OLD_NS: u64 = 1_000_000_000;

/// How long a server counts as hot after a failure before it is tried again.
const FAILED_NS: u64 = 10_000_000_000;

/// Q_RIF.
const HOT: f64 = 0.84;

/// The step by which a result moves the estimate of the quantile [`HOT`], relative to the estimate.
const STEP: f64 = 0.05;

#[derive(Clone, Copy, Debug)]
struct ProbeResult {
    in_flight: u32,
    latency_ns: u64,
    at: Timestamp,
    /// The number of further times that the result may be used.
    uses: u8,
    /// The time until which the server is hot because its last copy failed or was refused.
    failed: Timestamp,
}

const NOTHING: ProbeResult = ProbeResult {
    in_flight: 0,
    latency_ns: 0,
    at: Timestamp::NEVER,
    uses: 0,
    failed: Timestamp(0),
};

#[derive(Debug)]
struct Prequal {
    /// The newest result of each server.
    newest: Vec<ProbeResult>,
    /// The estimated quantile of requests in flight.
    hot: f64,
}

impl Prequal {
    /// The rank of a server: lower is better. `None` if the server has no valid result.
    fn rank(&self, server: ServerId, now: Timestamp) -> Option<(bool, u64)> {
        let ProbeResult { in_flight, latency_ns, at, uses, failed } = self.newest[server.index()];
        let hot = f64::from(in_flight) > self.hot || failed > now;
        let rank = if hot { (true, in_flight.into()) } else { (false, latency_ns) };
        (uses > 0 && now.since(at) < OLD_NS).then_some(rank)
    }
}

impl Pick for Prequal {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        let (mut best, mut results) = (None, 0);
        for server in levels.available().filter(|&server| !copy.avoid.contains(server)) {
            let Some(rank) = self.rank(server, levels.now()) else { continue };
            results += 1;
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, server));
            }
        }
        let (Some((_, server)), true) = (best, results >= 2) else {
            return levels.uniform(rng, copy.avoid);
        };
        let result = &mut self.newest[server.index()];
        result.in_flight = result.in_flight.saturating_add(1);
        result.uses -= 1;
        Some(server)
    }

    fn probes(&mut self, levels: Levels<'_>, rng: &mut Rng, probe: &mut dyn FnMut(ServerId)) {
        let mut avoid = Avoid::NONE;
        for round in 0..PROBES.min(levels.servers().len()) {
            let Some(server) = levels.uniform(rng, avoid) else { return };
            probe(server);
            // At most two servers can be avoided, so a fourth probe could go to the first server
            // again.
            avoid.0[round % 2] = Some(server);
        }
    }

    fn probed(&mut self, now: Timestamp, probed: Probed) {
        let Probed { server, in_flight, latency_ns } = probed;
        let Some(result) = self.newest.get_mut(server.index()) else { return };
        *result =
            ProbeResult { in_flight, latency_ns, at: now, uses: MOST_USES, failed: result.failed };
        // Estimates a quantile in steps: up if more requests are in flight than estimated,
        // otherwise down. The ratio of the two steps is the odds of the quantile.
        let size = STEP * self.hot.max(1.0);
        let above = f64::from(in_flight) > self.hot;
        self.hot += if above { size * HOT } else { -size * (1.0 - HOT) };
        self.hot = self.hot.max(0.0);
    }

    fn ended(&mut self, copy: Ended) {
        let Ended { server, now, outcome, .. } = copy;
        let failed = match outcome {
            Some(Outcome::Good | Outcome::Request) => now,
            Some(Outcome::Refused | Outcome::Failed(_)) => now.after(FAILED_NS),
            Some(Outcome::Local | Outcome::OverLimit) | None => return,
        };
        self.newest[server.index()].failed = failed;
    }

    fn restored(&mut self, server: ServerId) {
        self.newest[server.index()] = NOTHING;
    }
}
