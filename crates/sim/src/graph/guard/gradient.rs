//! A concurrency limit that follows the gradient of latency. Requests beyond the limit are turned
//! away.
//!
//! Source: Netflix, *concurrency-limits*, `Gradient2Limit`. The gradient is computed from the
//! long-term average of latencies and the present latency: gradient = max(½, min(1,
//! 1.5·long/present)). The gradient adjusts the limit: limit ← 0.8·limit + 0.2·(gradient·limit +
//! 4). The limit starts at 20 and changes only while at least half of it is used. The long-term
//! average covers 600 samples. The average is reduced by 5 % if it exceeds twice the present
//! latency.
//!
//! Deviation: the limit stays between 4 and 1,000, instead of the source's defaults of 20 and 200.

use super::{Ask, Guard};

const TOLERANCE: f64 = 1.5;
const QUEUE: f64 = 4.0;
const SMOOTHING: f64 = 0.2;
const SAMPLES: f64 = 600.0;

pub(super) struct Gradient2 {
    limit: f64,
    in_flight: f64,
    long_ns: f64,
    seen: f64,
}

impl Gradient2 {
    pub(super) fn new() -> Self {
        Self { limit: 20.0, in_flight: 0.0, long_ns: 0.0, seen: 0.0 }
    }
}

impl Guard for Gradient2 {
    fn admit(&mut self, _: u64, _: Ask) -> bool {
        let admits = self.in_flight < self.limit;
        self.in_flight += f64::from(u8::from(admits));
        admits
    }

    fn left(&mut self, _: u64, took_ns: u64, ok: bool) {
        let used = self.in_flight;
        self.in_flight -= 1.0;
        if !ok {
            return;
        }
        let present = took_ns.max(1) as f64;
        self.seen = (self.seen + 1.0).min(SAMPLES);
        self.long_ns += (present - self.long_ns) / self.seen;
        if self.long_ns / present > 2.0 {
            self.long_ns *= 0.95;
        }
        if used < self.limit / 2.0 {
            return;
        }
        let gradient = (TOLERANCE * self.long_ns / present).clamp(0.5, 1.0);
        let wanted = self.limit * gradient + QUEUE;
        self.limit += SMOOTHING * (wanted - self.limit);
        self.limit = self.limit.clamp(4.0, 1_000.0);
    }
}
