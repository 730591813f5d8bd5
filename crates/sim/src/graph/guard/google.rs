//! Adaptive throttling at the client: a caller drops calls by itself where many failed.
//!
//! Source: *Site Reliability Engineering* (Beyer et al., 2016), chapter 21, *Client-Side Throttling*: of the last two
//! minutes, a call is dropped with probability max(0, (requests − K·accepts) / (requests + 1)), K = 2.
//!
//! Accepted is what the process called did not turn away by itself: if failures of processes further down counted, too,
//! calls in parallel would lock the throttle, because few of them fail a whole request.
//!
//! Here the two minutes decay with a time constant of 30 s, so that a run of minutes sees it adapt.

use curtail_dist::seed;
use rand_pcg::Pcg64Mcg;

use super::{Ask, Guard};

const K: f64 = 2.0;
const WINDOW_NS: f64 = 30e9;

#[derive(Clone, Copy, Default)]
struct Of {
    requests: f64,
    accepts: f64,
    at: u64,
}

pub(super) struct Throttling {
    processes: Vec<Of>,
    rng: Pcg64Mcg,
}

impl Throttling {
    pub(super) fn new(processes: usize, seed: u64) -> Self {
        Self { processes: vec![Of::default(); processes], rng: seed::rng(seed) }
    }

    fn of(&mut self, now: u64, process: u32) -> &mut Of {
        let of = &mut self.processes[process as usize];
        let left = (-((now - of.at) as f64) / WINDOW_NS).exp();
        *of = Of { requests: of.requests * left, accepts: of.accepts * left, at: now };
        of
    }
}

impl Guard for Throttling {
    fn call(&mut self, now: u64, to: u32, _: Ask) -> bool {
        let of = self.of(now, to);
        let dropped = ((of.requests - K * of.accepts) / (of.requests + 1.0)).max(0.0);
        of.requests += 1.0;
        seed::unit(&mut self.rng) >= dropped
    }

    fn returned(&mut self, now: u64, to: u32, accepted: bool, _: f64) {
        self.of(now, to).accepts += f64::from(u8::from(accepted));
    }
}
