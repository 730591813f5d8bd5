//! An experiment, checked: what is simulated, and for how long.

use curtail_dist::{Distribution, seed};
use curtail_kernel::hedge::Learner;
use curtail_kernel::hedge::{Cancellation, Das, Laedge, Oracle};
use curtail_kernel::{
    Driver, HedgeSpec, Limits, NEVER_NS, Rng, Scheduler, Server, ServerId, Topology, Tuning,
};
use serde::{Deserialize, Serialize};

use crate::calendar::{Calendar, Disturbance};
use crate::candidate::Candidate;
use crate::error::Error;
use crate::shared::{Mechanism, Shared};
use curtail_dist::arrivals::Arrivals;
use curtail_dist::arrivals::Clock;

/// The length of the experiment's unit in ns: a millisecond. Times with units are reported in
/// milliseconds, times without in multiples of the unit.
pub const UNIT_NS: u64 = 1_000_000;

/// What a utilization counts: λ·x̄ over the capacity, which is the slots times the servers' speeds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UtilizationOf {
    /// λ·P̄: the queries' own service times only (document 000 §4.4).
    #[default]
    Mean,
    /// λ·S̄: with the jitter of one copy (document 001 §2.5).
    Total,
}

/// Whose the jitter is.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JitterOf {
    /// Each copy draws its own: a second copy can avoid the hiccup of the first.
    #[default]
    Copy,
    /// All copies of a query share one: hiccups are correlated across replicas, and a second copy
    /// takes as long as the first.
    Query,
}

pub(crate) const MOST_WINDOWS: u64 = 1_000;

/// Which requests are counted window by window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The first request of the first window, counted from 0.
    pub from: u64,
    /// Requests per window.
    pub length: u64,
    /// The first request that no window has; the last window may have fewer.
    pub to: u64,
}

impl Windows {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.to.saturating_sub(self.from).div_ceil(self.length)
    }
}

/// The world from a request on.
#[derive(Clone, Debug)]
pub struct Change {
    /// The first request that meets it, counted from 0.
    pub at: u64,
    /// What changes, as written.
    pub texts: Vec<String>,
    /// P.
    pub service: Distribution,
    /// J; none where it is always zero.
    pub jitter: Option<Distribution>,
    /// The speed of each replica of a shard.
    pub servers: Vec<f64>,
}

/// An experiment. Made by [`crate::Parameters::experiment`], which checks the values.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Shards that every request asks.
    pub shards: u32,
    /// The speed of each replica of a shard.
    pub servers: Vec<f64>,
    /// Queries that a replica serves at once.
    pub slots: u32,
    /// P.
    pub service: Distribution,
    /// J; none where it is always zero.
    pub jitter: Option<Distribution>,
    /// Whose it is.
    pub jitter_of: JitterOf,
    /// How far cost hints are off: the standard deviation of their logarithm. None: there are none.
    pub hint_error: Option<f64>,
    /// The arrival process of requests.
    pub arrivals: Arrivals,
    /// The offered utilization.
    pub utilization: f64,
    /// What it counts.
    pub utilization_of: UtilizationOf,
    /// Requests of each replication, with those of the warm-up.
    pub requests: u64,
    /// How many of them are not measured.
    pub warm_up: u64,
    /// Independent replications.
    pub replications: u32,
    /// Decides every draw.
    pub seed: u64,
    /// Queries that may wait per shard, and copies at its replicas.
    pub queue: u32,
    /// Latency between balancer and replica, one way.
    pub network: Option<Distribution>,
    /// Slow stretches of each replica, and its share of its own speed meanwhile.
    pub slowdown: Option<(Disturbance, f64)>,
    /// Failures of each replica.
    pub outages: Option<Disturbance>,
    /// How long a replica needs to stop a copy that executes, in ns.
    pub cancel_ns: u64,
    /// What is different from a request on.
    pub change: Option<Change>,
    /// The requests that are counted window by window.
    pub windows: Option<Windows>,
    /// Servers that clients share, in place of shards with servers of their own. Then there is one shard,
    /// and its servers are these.
    pub shared: Option<Shared>,
    /// Are its times written with units? Then results are in milliseconds, else in multiples of
    /// its unit.
    pub has_units: bool,
}

impl Experiment {
    /// The mean gap between requests, in ns.
    pub fn gap_ns(&self) -> f64 {
        let jitter = self.jitter.as_ref().map_or(0.0, Distribution::mean);
        let work = match self.utilization_of {
            UtilizationOf::Mean => self.service.mean(),
            UtilizationOf::Total => self.service.mean() + jitter,
        };
        work / self.capacity() / self.utilization
    }

    /// What the servers of a shard can do at once, in slots of speed 1.
    pub fn capacity(&self) -> f64 {
        f64::from(self.slots) * self.servers.iter().sum::<f64>()
    }

    /// The slots of all servers of all shards.
    pub fn slots_in_all(&self) -> u64 {
        u64::from(self.shards) * self.servers.len() as u64 * u64::from(self.slots)
    }

    /// The utilization with the jitter of one copy per query.
    pub fn utilization_with_jitter(&self) -> f64 {
        let jitter = self.jitter.as_ref().map_or(0.0, Distribution::mean);
        (self.service.mean() + jitter) / self.capacity() / self.gap_ns()
    }

    /// For how long a queue remembers, in ns: the relaxation time of a queue of Markov's kind with as
    /// many servers, 1 / (μ (1 − √ρ)²), with the variability of the services as in heavy traffic. For
    /// a utilization with jitter below 1.
    pub fn relaxation_ns(&self) -> f64 {
        let jitter = |of: fn(&Distribution) -> f64| self.jitter.as_ref().map_or(0.0, of);
        let mean = self.service.mean() + jitter(Distribution::mean);
        let scv = (self.service.variance() + jitter(Distribution::variance)) / mean / mean;
        let spare = 1.0 - self.utilization_with_jitter().sqrt();
        mean / self.capacity() * (1.0 + scv) / 2.0 / (spare * spare)
    }

    /// What a request costs to simulate: its queries, and the failures of servers until the next one.
    pub fn events_per_request(&self) -> f64 {
        let failures = self.outages.as_ref().map_or(0.0, |Disturbance { every, lasts }| {
            // Down, and up again.
            2.0 * self.servers.len() as f64 * self.gap_ns() / (every.mean() + lasts.mean())
        });
        f64::from(self.shards) * (1.0 + failures)
    }

    /// The world after the change, as an experiment of its own; none where nothing changes.
    ///
    /// Its utilization is that of the replicas as they are then: requests come as often as the
    /// utilization that was asked for would have it at the speeds before.
    pub fn after(&self) -> Option<Self> {
        let Change { service, jitter, servers, .. } = self.change.as_ref()?;
        let mut after = Self {
            service: service.clone(),
            jitter: jitter.clone(),
            servers: servers.clone(),
            change: None,
            ..self.clone()
        };
        // A ratio of 1 where the speeds stay, so that the gap is the same to the last digit.
        after.utilization *= self.capacity() / after.capacity();
        if let Some(surge) = self.shared.as_ref().and_then(|shared| shared.surge) {
            after.utilization = surge.utilization;
        }
        Some(after)
    }

    /// Over the requests that are measured: the mean gap between them, in ns, and the utilization
    /// with the jitter of one copy per query.
    pub(crate) fn measured_load(&self) -> (f64, f64) {
        let of = |world: &Self| (world.gap_ns(), world.utilization_with_jitter());
        let (Some(change), Some(after)) = (&self.change, self.after()) else { return of(self) };
        let (from, to) = self.measured();
        let before = (change.at.clamp(from, to) - from) as f64 / (to - from) as f64;
        let ((gap_before, load_before), (gap, load)) = (of(self), of(&after));
        // A utilization is of what the replicas can do in the time.
        let room_before = before * gap_before * self.capacity();
        let room = (1.0 - before) * gap * after.capacity();
        let share = room_before / (room_before + room);
        (gap + (gap_before - gap) * before, load + (load_before - load) * share)
    }

    /// The first request that is measured, and the first one after them.
    pub(crate) fn measured(&self) -> (u64, u64) {
        (self.warm_up, self.requests)
    }
}

/// One run: an experiment, what is tried in it, and which replication this is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) candidate: Candidate,
    pub(crate) replication: u32,
}

impl Setup<'_> {
    /// The seed of a stream that depends on the replication and the shard, and not on the policy.
    pub(crate) fn stream(&self, what: &[u8], shard: u32) -> u64 {
        let (replication, shard) = (self.replication.to_le_bytes(), shard.to_le_bytes());
        seed::stream(self.experiment.seed, &[what, &replication, &shard])
    }

    pub(crate) fn clock(&self) -> Clock {
        let seed = self.stream(b"arrivals", u32::MAX);
        Clock::new(&self.experiment.arrivals, self.experiment.gap_ns(), seed)
    }

    /// J, in the world of the candidate.
    pub(crate) fn jitter(&self) -> Option<&Distribution> {
        self.experiment.jitter.as_ref().filter(|_| self.candidate != Candidate::O1)
    }

    /// How many copies a query mostly has at most: one, where nothing hedges and nothing fails.
    pub(crate) fn copies(&self) -> usize {
        let hedges = self.candidate.policy().hedges();
        if hedges || self.experiment.outages.is_some() { 2 } else { 1 }
    }

    /// Of the servers of a shard; none where all are always of speed 1.
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

    pub(crate) fn wants_forecasts(&self) -> bool {
        self.candidate == Candidate::Idealized
    }

    /// One per client: nobody shares what it learns. None where the policy learns nothing.
    pub(crate) fn learners(&self) -> Vec<Learner> {
        let clients = self.experiment.shared.as_ref().map_or(1, |shared| shared.clients);
        (0..clients).filter_map(|_| self.candidate.policy().learner(&self.limits())).collect()
    }

    /// How stages of servers that clients share work.
    pub(crate) fn mechanism(&self, shared: &Shared) -> Mechanism {
        let chunk_ns = match self.candidate.policy().hedge() {
            Some(HedgeSpec::Das(Das { preempts: false, .. })) => NEVER_NS,
            _ => shared.chunk_ns,
        };
        Mechanism { chunk_ns, stop_ns: self.experiment.cancel_ns }
    }

    pub(crate) fn wants_starts(&self) -> bool {
        matches!(self.candidate.policy().hedge(), Some(HedgeSpec::Tied(_)))
    }

    pub(crate) fn is_timed(&self) -> bool {
        let policy = self.candidate.policy();
        self.candidate.policy().learner(&self.limits()).is_some()
            || policy.delay_ns().is_some()
            || policy.rate().is_some()
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.experiment.shared {
            Some(_) if self.is_oracle() => Ok(()),
            // One client says it for all.
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

    /// Do its servers tell copies apart? Then each shard is a world of its own, whose servers run the stage.
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
                why: format!("servers with priorities are all alike and never fail; drop {name}"),
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
        let (policy, limits) = (self.candidate.policy(), self.limits());
        let driven = match self.candidate {
            Candidate::Idealized => {
                let hedge = Laedge::new(topology.groups.len(), Cancellation::Preemptive, Oracle);
                policy.drive_with(hedge, &topology, limits, driver)
            }
            _ => policy.drive(&topology, limits, driver),
        };
        driven.map_err(|error| Error::Unfit {
            policy: self.candidate.to_string(),
            why: error.to_string(),
        })
    }

    pub(crate) fn limits(&self) -> Limits {
        let tuning = self.experiment.shared.as_ref().map_or_else(Tuning::default, |of| of.tuning);
        Limits {
            tuning,
            // Queues at the servers are as long as queues in front of them.
            max_outstanding: Topology::MAX_GATE,
            queue: self.experiment.queue,
            timeout_ns: NEVER_NS,
            attempt_timeout_ns: NEVER_NS,
            cancel_timeout_ns: NEVER_NS,
            cancel: true,
            // The sources' policies have no budget.
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
    fn requests_come_as_the_new_times_have_it_and_whatever_the_new_speeds() {
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
    fn what_is_measured_is_weighed_by_time() {
        let parameters = Parameters {
            change: vec!["service=exp:3".to_owned(), "jitter=det:3".to_owned()],
            change_at: Some(50_000),
            warm_up: 0.0,
            ..Parameters::default()
        };
        let experiment = parameters.experiment().expect("an experiment");
        let (gap, load) = experiment.measured_load();
        assert!((gap / experiment.gap_ns() - 2.0).abs() < 1e-12, "1 and 3");
        // A quarter of the time at 0.3, the rest at twice that.
        assert!((load - (0.25 * 0.3 + 0.75 * 0.6)).abs() < 1e-12, "{load}");
    }
}
