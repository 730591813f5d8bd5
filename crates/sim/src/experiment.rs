//! A checked experiment: the world to simulate, and the number of requests.

use curtail_dist::{Distribution, seed};
use curtail_kernel::hedge::Learner;
use curtail_kernel::{
    Driver, Limits, NEVER_NS, Needs, Rng, Scheduler, Server, ServerId, Topology, Tuning,
};
use serde::{Deserialize, Serialize};

use crate::calendar::{Calendar, Disturbance};
use crate::candidate::Candidate;
use crate::error::Error;
use crate::shared::{Mechanism, Shared};
use curtail_dist::arrivals::Arrivals;
use curtail_dist::arrivals::Clock;

/// The length of the experiment's unit in ns, which is a millisecond. Times with units are reported
/// in milliseconds, and times without units in multiples of this unit.
pub const UNIT_NS: u64 = 1_000_000;

/// The mean work x̄ that a utilization includes. The utilization is λ·x̄ divided by the capacity,
/// which is the number of slots times the servers' speeds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UtilizationOf {
    /// λ·P̄, which includes only the service times of queries (document 000 §4.4).
    #[default]
    Mean,
    /// λ·S̄, which also includes the jitter of one copy (document 001 §2.5).
    Total,
}

/// The scope of a jitter: a copy or a query.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JitterOf {
    /// Each copy draws its own jitter. A second copy can avoid the hiccup of the first.
    #[default]
    Copy,
    /// All copies of a query share the same jitter. Hiccups are correlated across replicas, and a
    /// second copy takes as long as the first.
    Query,
}

pub(crate) const MOST_WINDOWS: u64 = 1_000;

/// The requests that are reported window by window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The first request of the first window, counted from 0.
    pub from: u64,
    /// Requests per window.
    pub length: u64,
    /// The first request after the last window. The last window may be shorter than the others.
    pub to: u64,
}

impl Windows {
    /// Returns the number of windows.
    pub fn count(&self) -> u64 {
        self.to.saturating_sub(self.from).div_ceil(self.length)
    }
}

/// A change of the world that takes effect at a given request.
#[derive(Clone, Debug)]
pub struct Change {
    /// The first request after the change, counted from 0.
    pub at: u64,
    /// The changes, as the user wrote them.
    pub texts: Vec<String>,
    /// P.
    pub service: Distribution,
    /// J. `None` if it is always zero.
    pub jitter: Option<Distribution>,
    /// The speed of each replica of a shard.
    pub servers: Vec<f64>,
}

/// A checked experiment, made by [`crate::Parameters::experiment`].
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The number of shards. Every request goes to all of them.
    pub shards: u32,
    /// The speed of each replica of a shard.
    pub servers: Vec<f64>,
    /// The number of queries that a replica serves simultaneously.
    pub slots: u32,
    /// P.
    pub service: Distribution,
    /// J. `None` if it is always zero.
    pub jitter: Option<Distribution>,
    /// The scope of the jitter.
    pub jitter_of: JitterOf,
    /// Error of cost hints: the standard deviation of their logarithm. `None` without hints.
    pub hint_error: Option<f64>,
    /// The arrival process of requests.
    pub arrivals: Arrivals,
    /// The offered utilization.
    pub utilization: f64,
    /// The work that the utilization includes.
    pub utilization_of: UtilizationOf,
    /// Requests per replication, including the warm-up.
    pub requests: u64,
    /// Requests of the warm-up, which are not measured.
    pub warm_up: u64,
    /// The number of independent replications.
    pub replications: u32,
    /// The seed of all draws.
    pub seed: u64,
    /// The maximum number of queries that wait per shard, and of copies that wait at its replicas.
    pub queue: u32,
    /// One-way latency between balancer and replica.
    pub network: Option<Distribution>,
    /// The slow intervals of each replica, and its speed in them, relative to its normal speed.
    pub slowdown: Option<(Disturbance, f64)>,
    /// Failures of each replica.
    pub outages: Option<Disturbance>,
    /// Time, in ns, that a replica needs to stop a copy that is executing.
    pub cancel_ns: u64,
    /// The change of the world during the run.
    pub change: Option<Change>,
    /// The requests that are reported window by window.
    pub windows: Option<Windows>,
    /// The servers that clients share, which replace shards with their own servers. If there are
    /// such servers, `shards` is 1, and `servers` describes the shared servers.
    pub shared: Option<Shared>,
    /// Whether times are written with units. If so, results are in milliseconds, otherwise in
    /// multiples of the unit.
    pub has_units: bool,
}

impl Experiment {
    /// Returns the mean gap between requests, in ns.
    pub fn gap_ns(&self) -> f64 {
        let jitter = self.jitter.as_ref().map_or(0.0, Distribution::mean);
        let work = match self.utilization_of {
            UtilizationOf::Mean => self.service.mean(),
            UtilizationOf::Total => self.service.mean() + jitter,
        };
        work / self.capacity() / self.utilization
    }

    /// Returns the capacity of a shard, in slots of speed 1.
    pub fn capacity(&self) -> f64 {
        f64::from(self.slots) * self.servers.iter().sum::<f64>()
    }

    /// Returns the total number of slots of all servers in all shards.
    pub fn slots_in_all(&self) -> u64 {
        u64::from(self.shards) * self.servers.len() as u64 * u64::from(self.slots)
    }

    /// Returns the utilization including the jitter of one copy per query.
    pub fn utilization_with_jitter(&self) -> f64 {
        let jitter = self.jitter.as_ref().map_or(0.0, Distribution::mean);
        (self.service.mean() + jitter) / self.capacity() / self.gap_ns()
    }

    /// Returns the relaxation time of a shard's queue, in ns: the time after which a queue no
    /// longer depends on its past. It is the relaxation time of an M/M/c queue, 1 / (c μ (1 −
    /// √ρ)²), scaled by the variability of service times, as in the heavy-traffic approximation.
    /// The utilization with jitter must be below 1.
    pub fn relaxation_ns(&self) -> f64 {
        let jitter = |of: fn(&Distribution) -> f64| self.jitter.as_ref().map_or(0.0, of);
        let mean = self.service.mean() + jitter(Distribution::mean);
        let scv = (self.service.variance() + jitter(Distribution::variance)) / mean / mean;
        let spare = 1.0 - self.utilization_with_jitter().sqrt();
        mean / self.capacity() * (1.0 + scv) / 2.0 / (spare * spare)
    }

    /// Returns the simulation cost of a request: its queries, plus the server failures until the
    /// next request.
    pub fn events_per_request(&self) -> f64 {
        let failures = self.outages.as_ref().map_or(0.0, |Disturbance { every, lasts }| {
            // A failure costs two events: one when the server goes down, and one when it comes back
            // up.
            2.0 * self.servers.len() as f64 * self.gap_ns() / (every.mean() + lasts.mean())
        });
        f64::from(self.shards) * (1.0 + failures)
    }

    /// Returns the world after the change as a separate experiment, or `None` if there is no
    /// change.
    ///
    /// Its utilization is relative to the replicas after the change. Requests still arrive at the
    /// rate that gives the requested utilization at the old speeds.
    pub fn after(&self) -> Option<Self> {
        let Change { service, jitter, servers, .. } = self.change.as_ref()?;
        let mut after = Self {
            service: service.clone(),
            jitter: jitter.clone(),
            servers: servers.clone(),
            change: None,
            ..self.clone()
        };
        // If the speeds do not change, the ratio is exactly 1, so not even the last digit of the
        // gap changes.
        after.utilization *= self.capacity() / after.capacity();
        if let Some(surge) = self.shared.as_ref().and_then(|shared| shared.surge) {
            after.utilization = surge.utilization;
        }
        Some(after)
    }

    /// Returns the mean gap between the measured requests, in ns, and the mean utilization while
    /// they arrive. The utilization includes the jitter of one copy per query.
    pub(crate) fn measured_load(&self) -> (f64, f64) {
        let of = |world: &Self| (world.gap_ns(), world.utilization_with_jitter());
        let (Some(change), Some(after)) = (&self.change, self.after()) else { return of(self) };
        let (from, to) = self.measured();
        let before = (change.at.clamp(from, to) - from) as f64 / (to - from) as f64;
        let ((gap_before, load_before), (gap, load)) = (of(self), of(&after));
        // A utilization is relative to the product of the replicas' capacity and the length of the
        // period.
        let room_before = before * gap_before * self.capacity();
        let room = (1.0 - before) * gap * after.capacity();
        let share = room_before / (room_before + room);
        (gap + (gap_before - gap) * before, load + (load_before - load) * share)
    }

    /// Returns the first measured request, and the first one after the measured requests.
    pub(crate) fn measured(&self) -> (u64, u64) {
        (self.warm_up, self.requests)
    }
}

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
        if hedges || self.experiment.outages.is_some() { 2 } else { 1 }
    }

    /// Returns the calendars of a shard's servers. Empty if all servers always have speed 1.
    pub(crate) fn calendars(&self, shard: u32) -> Vec<Calendar> {
        let Experiment { servers, slowdown, .. } = self.experiment;
        if slowdown.is_none() && servers.iter().all(|&speed| speed == 1.0) {
            return Vec::new();
        }
        let of = |(server, &speed): (usize, &f64)| {
            let seed = self.stream(b"speed", shard);
            let seed = seed::stream(seed, &[&(server as u64).to_le_bytes()]);
            Calendar::new(speed, slowdown.clone(), seed)
        };
        servers.iter().enumerate().map(of).collect()
    }

    /// Returns what the candidate needs of its servers and of the simulator.
    pub(crate) fn needs(&self) -> Needs {
        self.candidate.policy().needs()
    }

    /// Returns one learner per client, because clients do not share what they learn. Empty if the
    /// policy does not learn.
    pub(crate) fn learners(&self) -> Vec<Box<dyn Learner>> {
        let clients = self.experiment.shared.as_ref().map_or(1, |shared| shared.clients);
        (0..clients).filter_map(|_| self.candidate.policy().learner(&self.limits())).collect()
    }

    /// Returns how the stages of shared servers interrupt and stop jobs.
    pub(crate) fn mechanism(&self, shared: &Shared) -> Mechanism {
        let chunk_ns = if self.needs().finishing { NEVER_NS } else { shared.chunk_ns };
        Mechanism { chunk_ns, stop_ns: self.experiment.cancel_ns }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.experiment.shared {
            Some(_) if self.is_oracle() => Ok(()),
            // One client is enough for this check, because all clients are alike.
            Some(shared) => {
                let one = Shared { clients: 1, ..shared.clone() };
                self.shared_cells(&one, None, 0).map(|_| ())
            }
            None if self.is_oracle() => Err(Error::Unfit {
                policy: self.candidate.to_string(),
                why: "it chooses among servers that clients share; add --servers".to_owned(),
            }),
            None if self.has_priorities() => self.check_priorities(),
            None => self.drive(Probe),
        }
    }

    /// Whether servers give copies different priorities. If so, each shard is a separate world
    /// whose servers run the kernel's stage.
    pub(crate) fn has_priorities(&self) -> bool {
        self.candidate.policy().has_priorities()
    }

    fn check_priorities(&self) -> Result<(), Error> {
        let Experiment { slowdown, outages, change, hint_error, servers, .. } = self.experiment;
        let unusable = [
            ("slowdown", slowdown.is_some()),
            ("outage", outages.is_some()),
            ("change", change.is_some()),
            ("hint-error", hint_error.is_some()),
            ("speeds", servers.iter().any(|&speed| speed != servers[0])),
        ];
        if let Some((name, _)) = unusable.iter().find(|(_, is_given)| *is_given) {
            return Err(Error::Unfit {
                policy: self.candidate.to_string(),
                why: format!("servers with priorities are all alike and never fail; remove {name}"),
            });
        }
        let shared = Shared::shard(servers.len() as u32);
        self.shared_cells(&shared, None, 0).map(|_| ())
    }

    pub(crate) fn is_oracle(&self) -> bool {
        self.candidate == Candidate::Oracle
    }

    pub(crate) fn drive<D: Driver>(&self, driver: D) -> Result<D::Output, Error> {
        let Experiment { servers, slots, .. } = self.experiment;
        let topology = Topology {
            servers: vec![Server { slots: *slots }; servers.len()],
            groups: vec![(0..servers.len() as u32).map(ServerId).collect()],
        };
        let driven = self.candidate.policy().drive(&topology, self.limits(), driver);
        driven.map_err(|error| Error::Unfit {
            policy: self.candidate.to_string(),
            why: error.to_string(),
        })
    }

    pub(crate) fn limits(&self) -> Limits {
        let tuning = self.experiment.shared.as_ref().map_or_else(Tuning::default, |of| of.tuning);
        Limits {
            tuning,
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

#[cfg(test)]
mod tests {
    use crate::Parameters;

    #[test]
    fn the_request_rate_follows_new_service_times_but_not_new_speeds() {
        let gaps = |change: &[&str]| {
            let change = change.iter().map(ToString::to_string).collect();
            let parameters = Parameters { change, warm_up: 0.5, ..Parameters::default() };
            let experiment = parameters.experiment().expect("an experiment");
            let after = experiment.after().expect("it changes");
            let (gap, load) = experiment.measured_load();
            assert_eq!(gap, after.gap_ns(), "all that is measured comes after the change");
            assert!((load - after.utilization_with_jitter()).abs() < 1e-12);
            (experiment.gap_ns(), after.gap_ns(), after.utilization)
        };
        let (before, after, utilization) = gaps(&["service=exp:3"]);
        assert_eq!((after, utilization), (3.0 * before, 0.3));
        let (before, after, utilization) = gaps(&["speeds=0.5,0.5"]);
        assert_eq!((after, utilization), (before, 0.6));
        let (before, after, _) = gaps(&["jitter=exp:3"]);
        assert_eq!(after, before, "the utilization counts P only");
    }

    #[test]
    fn the_measured_load_is_weighted_by_time() {
        let parameters = Parameters {
            change: vec!["service=exp:3".to_owned(), "jitter=det:3".to_owned()],
            change_at: Some(50_000),
            warm_up: 0.0,
            ..Parameters::default()
        };
        let experiment = parameters.experiment().expect("an experiment");
        let (gap, load) = experiment.measured_load();
        assert!((gap / experiment.gap_ns() - 2.0).abs() < 1e-12, "1 and 3");
        // The utilization is 0.3 for a quarter of the time and 0.6 for the rest.
        assert!((load - (0.25 * 0.3 + 0.75 * 0.6)).abs() < 1e-12, "{load}");
    }
}
