//! How far apart the clocks of two hosts are, from the calls between them.
//!
//! A server's span lies within its client's, so every call bounds the difference of the two clocks from both sides. The
//! estimate is the middle of the bounds that most calls agree on: Marzullo's algorithm ("Maintaining the time in a
//! distributed system", 1984), as in NTP. Jaeger and Zipkin adjust each span by the middle of its own bounds; that is done
//! here only where no difference suits 9 in 10 calls, because a clock wanders or hosts of one service have different ones.
//! If no difference at all suits nearly as many calls, the clocks agree.
//!
//! Hosts of one service often have the same clock, so that all calls between two services count together. Only where one
//! value does not suit them, or not the calls of a host, hosts are looked at one by one.
//!
//! A server's span that is longer than its client's (a stream) bounds less: it begins within the client's.
//!
//! Bounds: [`PAIRS_MAX`] pairs of hosts, [`CALLS_MAX`] calls of each, evenly chosen.

use std::collections::BTreeMap;

use super::Kind;
use super::halves::Node;

const PAIRS_MAX: usize = 4_096;
const CALLS_MAX: usize = 256;
/// Timestamps are as exact as this, and as 1 part in 1,000 of the call.
const EXACT_NS: i64 = 2_000;
/// The clocks agree if at most 1 call in so many says otherwise.
const OTHERS_ONE_IN: usize = 20;
/// A clock wanders if no difference suits all calls but 1 in so many.
const WANDERS_ONE_IN: usize = 10;

/// What is known about two hosts.
#[derive(Debug, Default, Clone)]
pub(super) struct Pair {
    /// Of caller and callee.
    services: (u32, u32),
    /// Calls seen.
    pub(super) calls: u64,
    every: u64,
    /// At least, at most, and how exact these are.
    bounds: Vec<(i64, i64, i64)>,
    settled: u64,
    /// By how much the callee's clock is ahead.
    pub(super) ahead_ns: i64,
    /// Within this on both sides.
    pub(super) within_ns: u64,
    /// If this suits nearly all calls.
    pub(super) is_steady: bool,
}

/// The pairs of caller and callee.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    pub(super) services: BTreeMap<(u32, u32), Pair>,
    pub(super) hosts: BTreeMap<(u32, u32), Pair>,
}

fn minus(a: u64, b: u64) -> i64 {
    (i128::from(a) - i128::from(b)).clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// What a call says about how far the callee's clock is ahead.
fn bounds(caller: &Node, callee: &Node) -> (i64, i64, i64) {
    let is_stream = callee.length() > caller.length();
    let least = minus(if is_stream { callee.start_ns } else { callee.end_ns }, caller.end_ns);
    let exact = EXACT_NS.max((caller.length() / 1_000).min(i64::MAX as u64) as i64);
    (least, minus(callee.start_ns, caller.start_ns), exact)
}

impl Clocks {
    /// Learns from a span and its parent.
    pub(super) fn observe(&mut self, caller: &Node, callee: &Node) {
        let is_queued = callee.kind == Kind::Consumer || caller.kind == Kind::Producer;
        let (services, hosts) = ((caller.service, callee.service), (caller.host, callee.host));
        if is_queued || caller.is_backward || callee.is_backward {
            return;
        }
        for (pairs, key) in [(&mut self.services, services), (&mut self.hosts, hosts)] {
            if key.0 != key.1 && (pairs.len() < PAIRS_MAX || pairs.contains_key(&key)) {
                let new = Pair { services, every: 1, ..Pair::default() };
                pairs.entry(key).or_insert(new).observe(bounds(caller, callee));
            }
        }
    }

    /// Makes the estimates, of pairs that were called twice as often as when theirs was made.
    pub(super) fn settle(&mut self) {
        let pairs = self.services.values_mut().chain(self.hosts.values_mut());
        for pair in pairs.filter(|pair| pair.calls >= 2 * pair.settled) {
            pair.settled = pair.calls;
            pair.settle();
        }
    }

    /// By how much the callee's clock is ahead in this call.
    pub(super) fn ahead(&self, caller: &Node, callee: &Node) -> i64 {
        let Some(pair) = self.hosts.get(&(caller.host, callee.host)) else { return 0 };
        let pair = self.together(pair).unwrap_or(pair);
        let (least, most, exact) = bounds(caller, callee);
        // Nothing begins before its cause: a clock that says so has moved.
        let is_possible = pair.ahead_ns <= most.saturating_add(exact);
        if least <= most && (!pair.is_steady || !is_possible) {
            return pair.ahead_ns.clamp(least, most);
        }
        pair.ahead_ns
    }

    /// The pair of services, if it suits this pair of their hosts.
    pub(super) fn together(&self, hosts: &Pair) -> Option<&Pair> {
        self.services.get(&hosts.services).filter(|pair| {
            let within = pair.within_ns.saturating_add(hosts.within_ns);
            pair.is_steady && pair.ahead_ns.abs_diff(hosts.ahead_ns) <= within
        })
    }
}

impl Pair {
    fn observe(&mut self, bounds: (i64, i64, i64)) {
        if self.calls.is_multiple_of(self.every) {
            self.bounds.push(bounds);
        }
        self.calls += 1;
        if self.bounds.len() >= CALLS_MAX {
            let mut is_kept = false;
            self.bounds.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.every *= 2;
        }
    }

    fn settle(&mut self) {
        let possible = self.bounds.iter().filter(|(least, most, _)| least <= most);
        let agree =
            possible.clone().filter(|(least, most, exact)| -exact <= *most && *least <= *exact);
        // Begins before ends of the same place.
        let mut edges: Vec<(i64, i32)> =
            possible.flat_map(|&(least, most, _)| [(least, -1), (most, 1)]).collect();
        edges.sort_unstable();
        let (mut held, mut best, mut place) = (0_usize, 0, (0, 0));
        for (at, &(edge, step)) in edges.iter().enumerate() {
            held = if step < 0 { held + 1 } else { held - 1 };
            if held > best {
                // The next edge is an end, or else there is a better place.
                (best, place) = (held, (edge, edges[at + 1].0));
            }
        }
        let agree = agree.count() + self.bounds.len() / OTHERS_ONE_IN >= best;
        let (least, most) = if agree { (0, 0) } else { place };
        self.ahead_ns = (i128::midpoint(least.into(), most.into())) as i64;
        self.within_ns = most.abs_diff(least) / 2;
        self.is_steady = (self.bounds.len() - best) * WANDERS_ONE_IN <= self.bounds.len();
    }
}
