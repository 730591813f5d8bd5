//! Estimates the difference between the clocks of two hosts from the calls between them.
//!
//! A server's span lies within its client's span, so every call bounds the difference of the two
//! clocks from both sides. The estimate is the midpoint of the range that fits the bounds of the
//! largest number of calls: Marzullo's algorithm ("Maintaining the time in a distributed system",
//! 1984), as in NTP. A clock may drift, or the hosts of a service may have different clocks. If no
//! single difference therefore fits 9 in 10 calls, the estimate is clamped to the bounds of each
//! call. By contrast, Jaeger and Zipkin adjust every span by the midpoint of its own bounds. If a
//! difference of 0 fits nearly as many calls as the best estimate does, the clocks count as equal.
//!
//! Hosts of one service often have the same clock, so calls are first pooled per pair of services.
//! A pair of hosts has a separate estimate if no single value fits the calls between the services,
//! or if that value does not fit these hosts.
//!
//! If a server's span is longer than its client's (a stream), its bounds are looser, because only
//! its start lies within the client's span.
//!
//! Memory is bounded, because at most [`PAIRS_MAX`] pairs of hosts, and [`CALLS_MAX`] evenly chosen
//! calls per pair, are kept.

use std::collections::BTreeMap;

use super::Kind;
use super::halves::Node;

const PAIRS_MAX: usize = 4_096;
const CALLS_MAX: usize = 256;
/// The minimum inaccuracy of timestamps, in nanoseconds. If 1/1,000 of a call's duration is larger,
/// that value is used instead.
const EXACT_NS: i64 = 2_000;
/// Clocks count as equal if a difference of 0 fits nearly as many calls as the best estimate does.
/// The shortfall may be at most 1 in N calls.
const OTHERS_ONE_IN: usize = 20;
/// An estimate is steady if at most 1 in N calls does not fit it.
const WANDERS_ONE_IN: usize = 10;

/// The calls between two services or hosts, and the estimate from them.
#[derive(Debug, Default, Clone)]
pub(super) struct Pair {
    /// The services of the caller and the callee.
    services: (u32, u32),
    /// The number of calls that were seen.
    pub(super) calls: u64,
    every: u64,
    /// The bounds from each chosen call.
    bounds: Vec<Bounds>,
    settled: u64,
    /// The callee's clock minus the caller's.
    pub(super) ahead_ns: i64,
    /// Half of the width of the range that fits the largest number of calls.
    pub(super) within_ns: u64,
    /// Whether one difference fits nearly all calls.
    pub(super) is_steady: bool,
}

/// Estimates per pair of caller and callee.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    pub(super) services: BTreeMap<(u32, u32), Pair>,
    pub(super) hosts: BTreeMap<(u32, u32), Pair>,
}

fn minus(a: u64, b: u64) -> i64 {
    (i128::from(a) - i128::from(b)).clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// The bounds that a call sets on the difference (callee's clock minus caller's clock), and their
/// inaccuracy.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    least: i64,
    most: i64,
    exact: i64,
}

fn bounds(caller: &Node, callee: &Node) -> Bounds {
    let is_stream = callee.length() > caller.length();
    let least = minus(if is_stream { callee.start_ns } else { callee.end_ns }, caller.end_ns);
    let exact = EXACT_NS.max((caller.length() / 1_000).min(i64::MAX as u64) as i64);
    Bounds { least, most: minus(callee.start_ns, caller.start_ns), exact }
}

impl Clocks {
    /// Adds the bounds of a call.
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

    /// Updates the estimate of each pair whose number of calls has at least doubled since its last
    /// estimate.
    pub(super) fn settle(&mut self) {
        let pairs = self.services.values_mut().chain(self.hosts.values_mut());
        for pair in pairs.filter(|pair| pair.calls >= 2 * pair.settled) {
            pair.settled = pair.calls;
            pair.settle();
        }
    }

    /// Returns the difference by which this call is corrected: the callee's clock minus the
    /// caller's clock.
    pub(super) fn ahead(&self, caller: &Node, callee: &Node) -> i64 {
        let Some(pair) = self.hosts.get(&(caller.host, callee.host)) else { return 0 };
        let pair = self.together(pair).unwrap_or(pair);
        let Bounds { least, most, exact } = bounds(caller, callee);
        // A span cannot begin before its cause. If the corrected times imply that it does, the
        // clock has moved.
        let is_possible = pair.ahead_ns <= most.saturating_add(exact);
        if least <= most && (!pair.is_steady || !is_possible) {
            return pair.ahead_ns.clamp(least, most);
        }
        pair.ahead_ns
    }

    /// Returns the estimate for the services of two hosts, if it fits these hosts.
    pub(super) fn together(&self, hosts: &Pair) -> Option<&Pair> {
        self.services.get(&hosts.services).filter(|pair| {
            let within = pair.within_ns.saturating_add(hosts.within_ns);
            pair.is_steady && pair.ahead_ns.abs_diff(hosts.ahead_ns) <= within
        })
    }
}

impl Pair {
    fn observe(&mut self, bounds: Bounds) {
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
        let possible = self.bounds.iter().filter(|of| of.least <= of.most);
        let agree = possible.clone().filter(|of| -of.exact <= of.most && of.least <= of.exact);
        // At equal positions, starts sort before ends.
        let mut edges: Vec<(i64, i32)> =
            possible.flat_map(|of| [(of.least, -1), (of.most, 1)]).collect();
        edges.sort_unstable();
        let (mut held, mut best, mut place) = (0_usize, 0, (0, 0));
        for (at, &(edge, step)) in edges.iter().enumerate() {
            held = if step < 0 { held + 1 } else { held - 1 };
            if held > best {
                // The next edge must be an end, because otherwise a later position would have a
                // larger count.
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
