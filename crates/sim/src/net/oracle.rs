//! The oracle, under which clients see the current queue and speed of every server.
//!
//! Source: document 002 §4.4.2, "Oracle (ORA)": the replica with the least instantaneous q/μ. It is
//! not a policy, because no real client has this information. It is not a bound either, because it
//! is greedy and does not count requests that are on their way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use curtail_kernel::balance::{Pick, Wanted};
use curtail_kernel::{Levels, Rng, ServerId};

/// For each server, (q + 1) / μ as the bits of a float.
#[derive(Clone, Debug)]
pub(crate) struct Scores(Arc<[AtomicU64]>);

impl Scores {
    pub(super) fn new(servers: usize) -> Self {
        Self((0..servers).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn set(&self, server: u32, outstanding: u32, speed: f64) {
        let score = f64::from(outstanding + 1) / speed;
        self.0[server as usize].store(score.to_bits(), Ordering::Relaxed);
    }
}

impl Pick for Scores {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        let score = |server: ServerId| self.0[server.index()].load(Ordering::Relaxed);
        levels.least_by(rng, copy.avoid, |server| f64::from_bits(score(server)))
    }
}
