//! A run: an experiment, a candidate, and the number of the replication.

use std::borrow::Cow;

use curtail_dist::arrivals::Clock;
use curtail_dist::{Distribution, seed};
use curtail_kernel::hedge::AnyLearner;
use curtail_kernel::{Driver, Limits, NEVER_NS, Needs, Rng, Scheduler, Topology};

use crate::candidate::Candidate;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::world::{Shared, World};

/// A run: an experiment, a candidate, and the number of the replication.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) candidate: Candidate,
    pub(crate) replication: u32,
}

impl Setup<'_> {
    /// Returns the seed of a stream. It depends on the replication and the shard, but not on the
    /// policy.
    pub(crate) fn stream(&self, what: &[u8], shard: u32) -> u64 {
        let (replication, shard) = (self.replication.to_le_bytes(), shard.to_le_bytes());
        seed::stream(self.experiment.seed, &[what, &replication, &shard])
    }

    pub(crate) fn clock(&self) -> Clock {
        let seed = self.stream(b"arrivals", u32::MAX);
        Clock::new(&self.experiment.arrivals, self.experiment.gap_ns(), seed)
    }

    /// Returns J in the world of the candidate. There is no jitter for [`Candidate::O1`].
    pub(crate) fn jitter(&self) -> Option<&Distribution> {
        self.experiment.jitter.as_ref().filter(|_| !self.candidate.is_without_jitter())
    }

    /// Returns the usual maximum number of copies per query: one if nothing hedges and nothing
    /// fails, otherwise two.
    pub(crate) fn copies(&self) -> usize {
        let hedges = self.candidate.policy().hedges();
        if hedges || self.experiment.world.outages().is_some() { 2 } else { 1 }
    }

    /// Returns what the candidate needs of its servers and of the simulator.
    pub(crate) fn needs(&self) -> Needs {
        self.candidate.policy().needs()
    }

    /// Returns one learner per client, because clients do not share what they learn. Empty if the
    /// policy does not learn.
    pub(crate) fn learners(&self) -> Vec<AnyLearner> {
        let clients = 0..self.experiment.world.clients();
        clients.filter_map(|_| self.candidate.policy().learner(&self.limits())).collect()
    }

    /// Checks that the world supports the candidate.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match (&self.experiment.world, self.candidate) {
            (World::Shards(_), Candidate::Oracle) => {
                Err(self.unfit("it chooses among servers that clients share; add --servers"))
            }
            (World::Shared(_), Candidate::Trained { .. }) => {
                Err(self.unfit("it is for shards with their own servers; remove --servers"))
            }
            _ => match self.with_stages()? {
                // One client is enough for this check, because all clients are alike.
                Some(shared) => self.shared_cells(&shared, 0..1, None).map(drop),
                None => self.drive(Probe),
            },
        }
    }

    /// Returns the servers of a shard, if they run the kernel's stage: servers that clients share,
    /// and servers that give copies different priorities. Otherwise, a shard is simulated together
    /// with its cell ([`crate::shard`]).
    pub(crate) fn with_stages(&self) -> Result<Option<Cow<'_, Shared>>, Error> {
        match &self.experiment.world {
            World::Shared(shared) => Ok(Some(Cow::Borrowed(shared))),
            World::Shards(_) if !self.candidate.policy().has_priorities() => Ok(None),
            World::Shards(shards) => {
                let shared = shards.with_priorities().map_err(|name| {
                    let why = "servers with priorities are all alike and never fail";
                    self.unfit(format!("{why}; remove {name}"))
                })?;
                Ok(Some(Cow::Owned(shared)))
            }
        }
    }

    pub(crate) fn unfit(&self, why: impl Into<String>) -> Error {
        Error::Unfit { policy: self.candidate.to_string(), why: why.into() }
    }

    pub(crate) fn drive<D: Driver>(&self, driver: D) -> Result<D::Output, Error> {
        let Experiment { world, slots, .. } = self.experiment;
        let topology = Topology::replicated(world.servers(), *slots);
        let driven = self.candidate.policy().drive(&topology, self.limits(), driver);
        driven.map_err(|error| self.unfit(error.to_string()))
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            tuning: self.experiment.world.tuning(),
            // Queues at the servers can be as long as queues in front of them.
            max_outstanding: Topology::MAX_GATE,
            queue: self.experiment.queue,
            timeout_ns: NEVER_NS,
            attempt_timeout_ns: NEVER_NS,
            cancel_timeout_ns: NEVER_NS,
            cancel: true,
            // The policies in the source documents have no hedge budget.
            hedge_budget: 1.0,
            eject_after: 0,
            ..Limits::default()
        }
    }
}

struct Probe;

impl Driver for Probe {
    type Output = ();

    fn drive<S: Scheduler + 'static>(self, _: impl FnMut(Rng) -> S) {}
}
