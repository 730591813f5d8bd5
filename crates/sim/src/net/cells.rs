//! The cells of clients that share servers.

use curtail_kernel::balance::Pick;
use curtail_kernel::hedge::NoHedge;
use curtail_kernel::{
    Cell, ConfigError, Driver, Inline, Needs, Parts, Rng, Scheduler, Server, ServerId, Topology,
};

use super::oracle::Scores;
use crate::candidate::Candidate;
use crate::error::Error;
use crate::experiment::{Experiment, Setup};
use crate::shared::Shared;

impl Setup<'_> {
    /// Creates the cells of clients that share servers. The cells share their read-only data.
    pub(crate) fn shared_cells(
        &self,
        shared: &Shared,
        scores: Option<&Scores>,
        shard: u32,
    ) -> Result<Vec<Box<dyn Scheduler>>, Error> {
        let Experiment { servers, slots, .. } = self.experiment;
        let count = servers.len() as u32;
        let ring = |g: u32| (0..shared.replicas).map(|at| ServerId((g + at) % count)).collect();
        // After the rings, there is one more group per server, for read repairs.
        let single = (0..count).filter(|_| shared.repair > 0.0).map(|one| vec![ServerId(one)]);
        let topology = Topology {
            servers: vec![Server { slots: shared.client_slots.unwrap_or(*slots) }; servers.len()],
            groups: (0..shared.rings(count)).map(ring).chain(single).collect(),
        };
        let limits = self.limits();
        let unfit = |why: String| Error::Unfit { policy: self.candidate.to_string(), why };
        let rng = |client| curtail_kernel::rng(self.stream(b"cell", client + shard));
        let clients: Vec<Rng> = (0..shared.clients).map(rng).collect();
        let built = match (self.candidate, scores) {
            (Candidate::Oracle, Some(scores)) => {
                let gates = vec![limits.max_outstanding; servers.len()];
                let cell = |rng| -> Result<Box<dyn Scheduler>, ConfigError> {
                    let pick: Box<dyn Pick> = Box::new(scores.clone());
                    let parts = Parts { pick, hedge: Inline(NoHedge), needs: Needs::NOTHING };
                    Ok(Box::new(Cell::new(&topology, &gates, limits, parts, rng)?))
                };
                clients.into_iter().map(cell).collect()
            }
            (Candidate::Oracle | Candidate::Trained { .. }, _) => {
                Err(ConfigError("it is for shards with their own servers; remove --servers".into()))
            }
            (candidate, _) => candidate.policy().drive(&topology, limits, Cells(clients)),
        };
        built.map_err(|error| unfit(error.to_string()))
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
