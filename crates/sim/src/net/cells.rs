//! The cells of clients that share servers.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use curtail_kernel::balance::{Pick, Wanted};
use curtail_kernel::hedge::NoHedge;
use curtail_kernel::{
    Cell, ConfigError, Driver, Inline, Levels, Needs, Parts, Rng, Scheduler, Server, ServerId,
    Topology,
};

use crate::candidate::Candidate;
use crate::error::Error;
use crate::setup::Setup;
use crate::world::Shared;

impl Setup<'_> {
    /// Creates the cells of these clients. The cells share their read-only data.
    pub(crate) fn shared_cells(
        &self,
        shared: &Shared,
        clients: Range<u32>,
        scores: Option<&Scores>,
    ) -> Result<Vec<Box<dyn Scheduler>>, Error> {
        let count = shared.servers;
        let ring = |g: u32| (0..shared.replicas).map(|at| ServerId((g + at) % count)).collect();
        // After the rings, there is one more group per server, for read repairs.
        let single = (0..count).filter(|_| shared.repair > 0.0).map(|one| vec![ServerId(one)]);
        let slots = shared.client_slots.unwrap_or(self.experiment.slots);
        let topology = Topology {
            servers: vec![Server { slots }; count as usize],
            groups: (0..shared.rings()).map(ring).chain(single).collect(),
        };
        let limits = self.limits();
        let rng = |client| curtail_kernel::rng(self.stream(b"cell", client));
        let clients: Vec<Rng> = clients.map(rng).collect();
        let built = match (self.candidate, scores) {
            (Candidate::Oracle, Some(scores)) => {
                let gates = vec![limits.max_outstanding; count as usize];
                let cell = |rng| -> Result<Box<dyn Scheduler>, ConfigError> {
                    let pick: Box<dyn Pick> = Box::new(scores.clone());
                    let parts = Parts { pick, hedge: Inline(NoHedge), needs: Needs::NOTHING };
                    Ok(Box::new(Cell::new(&topology, &gates, limits, parts, rng)?))
                };
                clients.into_iter().map(cell).collect()
            }
            (candidate, _) => candidate.policy().drive(&topology, limits, Cells(clients)),
        };
        built.map_err(|error| self.unfit(error.to_string()))
    }
}

/// Creates one cell per generator.
struct Cells(Vec<Rng>);

impl Driver for Cells {
    type Output = Vec<Box<dyn Scheduler>>;

    fn drive<S: Scheduler + 'static>(self, mut cell: impl FnMut(Rng) -> S) -> Self::Output {
        self.0.into_iter().map(|rng| -> Box<dyn Scheduler> { Box::new(cell(rng)) }).collect()
    }

    fn drive_boxed(self, cell: impl FnMut(Rng) -> Box<dyn Scheduler>) -> Self::Output {
        self.0.into_iter().map(cell).collect()
    }
}

/// The oracle, under which clients see the current queue and speed of every server.
///
/// Source: document 002 §4.4.2, "Oracle (ORA)": the replica with the least instantaneous q/μ. It is
/// not a policy, because no real client has this information. It is not a bound either, because it
/// is greedy and does not count requests that are on their way.
///
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
