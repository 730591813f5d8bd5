//! The oracle: clients that know the queue and the speed of every server at this moment.
//!
//! Source: document 002 §4.4.2, "Oracle (ORA)": the least instantaneous q/μ of the replicas. No policy, for no
//! client can know that; and no bound, for it is greedy, and requests on their way are not counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use curtail_kernel::balance::Pick;
use curtail_kernel::{Avoid, GroupId, Levels, Rng, ServerId};

/// By server: (q + 1) / μ, as the bits of a float.
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
    fn pick(
        &mut self,
        _: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId> {
        let score = |server: ServerId| self.0[server.index()].load(Ordering::Relaxed);
        levels.least_by(rng, avoid, |server| f64::from_bits(score(server)))
    }
}
