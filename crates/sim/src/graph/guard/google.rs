//! Adaptive throttling at the client: a caller drops some of its calls if many calls have failed.
//!
//! Source: *Site Reliability Engineering* (Beyer et al., 2016), chapter 21, *Client-Side
//! Throttling*: a call is dropped with probability max(0, (requests − K·accepts) / (requests + 1)),
//! K = 2, over the last two minutes.
//!
//! A call counts as accepted if the called process did not turn it away itself. If failures of
//! processes further downstream were counted as rejections, the throttle could not recover under
//! parallel calls, because a few such failures are enough to fail a whole request.
//!
//! Here the two minutes are an exponential decay with a time constant of 30 s. The throttle
//! therefore adapts within a run of a few minutes.

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
