//! Overload control by prices: an overloaded process raises its price, and requests carry tokens to
//! pay it.
//!
//! Source: Xing et al., *Rajomon: Decentralized and Coordinated Overload Control for
//! Latency-Sensitive Microservices* (NSDI 2025), simplified. Every 10 ms a process raises its price
//! in proportion to the queueing delay beyond a threshold, or lowers it by 1 if the delay is below
//! the threshold. It reports the maximum of its own price and the highest price downstream. A
//! request with fewer tokens than the price is turned away. A caller that knows the price does not
//! even send such a call. The tokens of each request are drawn uniformly.

use super::{Ask, Guard};

const INTERVAL_NS: u64 = 10_000_000;
pub(super) const THRESHOLD_NS: u64 = 10_000_000;
/// Price increase per interval for a delay of twice the threshold.
const STEP: f64 = 2.0;

pub(super) struct Prices {
    threshold_ns: f64,
    own: f64,
    /// The price of each called process.
    downstream: Vec<f64>,
    longest_ns: f64,
    since: u64,
}

impl Prices {
    pub(super) fn new(processes: usize, threshold_ns: u64) -> Self {
        Self {
            threshold_ns: threshold_ns as f64,
            own: 0.0,
            downstream: vec![0.0; processes],
            longest_ns: 0.0,
            since: 0,
        }
    }

    fn update(&mut self, now: u64) {
        if now - self.since < INTERVAL_NS {
            return;
        }
        let excess = self.longest_ns / self.threshold_ns - 1.0;
        let intervals = ((now - self.since) / INTERVAL_NS) as f64;
        self.own += if excess > 0.0 { STEP * excess.min(2.0) } else { -intervals };
        self.own = self.own.clamp(0.0, 127.0);
        (self.longest_ns, self.since) = (0.0, now);
    }
}

impl Guard for Prices {
    fn admit(&mut self, now: u64, ask: Ask) -> bool {
        self.update(now);
        f64::from(ask.user) >= self.own
    }

    fn waited(&mut self, now: u64, ns: u64) {
        self.longest_ns = self.longest_ns.max(ns as f64);
        self.update(now);
    }

    fn call(&mut self, _: u64, to: u32, ask: Ask) -> bool {
        f64::from(ask.user) >= self.downstream[to as usize]
    }

    fn returned(&mut self, _: u64, to: u32, _: bool, signal: f64) {
        self.downstream[to as usize] = signal;
    }

    fn signal(&mut self, now: u64) -> f64 {
        self.update(now);
        self.downstream.iter().copied().fold(self.own, f64::max)
    }
}
