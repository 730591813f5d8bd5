//! A checked experiment: the world to simulate, and the number of requests.

use std::ops::Range;

use curtail_dist::Distribution;
use curtail_dist::arrivals::Arrivals;
use serde::{Deserialize, Serialize};

use crate::calendar::Disturbance;
use crate::world::{Shards, World};

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

/// A checked experiment, made by [`crate::Parameters::experiment`].
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The servers, and who sends to them.
    pub world: World,
    /// The number of queries that a server serves simultaneously.
    pub slots: u32,
    /// P.
    pub service: Distribution,
    /// J. `None` if it is always zero.
    pub jitter: Option<Distribution>,
    /// The scope of the jitter.
    pub jitter_of: JitterOf,
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
    /// The maximum number of queries that wait per shard, and of copies that wait at its servers.
    pub queue: u32,
    /// One-way latency between balancer and server.
    pub network: Option<Distribution>,
    /// Time, in ns, that a server needs to stop a copy that is executing.
    pub cancel_ns: u64,
    /// The requests that are reported window by window.
    pub windows: Option<Windows>,
    /// Whether times are written with units. If so, results are in milliseconds, otherwise in
    /// multiples of the unit.
    pub has_units: bool,
}

impl Experiment {
    /// Returns the mean gap between requests, in ns.
    pub fn gap_ns(&self) -> f64 {
        let work = match self.utilization_of {
            UtilizationOf::Mean => self.service.mean(),
            UtilizationOf::Total => self.service.mean() + self.mean_jitter(),
        };
        work / self.capacity() / self.utilization
    }

    /// Returns the capacity of a shard, in slots of speed 1.
    pub fn capacity(&self) -> f64 {
        f64::from(self.slots) * self.world.speed()
    }

    /// Returns the mean of J, in ns.
    pub(crate) fn mean_jitter(&self) -> f64 {
        self.jitter.as_ref().map_or(0.0, Distribution::mean)
    }

    /// Returns the total number of slots of all servers in all shards.
    pub fn slots_in_all(&self) -> u64 {
        u64::from(self.world.shards()) * u64::from(self.world.servers()) * u64::from(self.slots)
    }

    /// Returns the utilization including the jitter of one copy per query.
    pub fn utilization_with_jitter(&self) -> f64 {
        (self.service.mean() + self.mean_jitter()) / self.capacity() / self.gap_ns()
    }

    /// Returns the relaxation time of a shard's queue, in ns: the time after which a queue no
    /// longer depends on its past. It is the relaxation time of an M/M/c queue, 1 / (c μ (1 −
    /// √ρ)²), scaled by the variability of service times, as in the heavy-traffic approximation.
    /// The utilization with jitter must be below 1.
    pub fn relaxation_ns(&self) -> f64 {
        let mean = self.service.mean() + self.mean_jitter();
        let of_jitter = self.jitter.as_ref().map_or(0.0, Distribution::variance);
        let scv = (self.service.variance() + of_jitter) / mean / mean;
        let spare = 1.0 - self.utilization_with_jitter().sqrt();
        mean / self.capacity() * (1.0 + scv) / 2.0 / (spare * spare)
    }

    /// Returns the simulation cost of a request: its queries, plus the server failures until the
    /// next request.
    pub fn events_per_request(&self) -> f64 {
        let servers = f64::from(self.world.servers());
        let failures = self.world.outages().map_or(0.0, |Disturbance { every, lasts }| {
            // A failure costs two events: one when the server goes down, and one when it comes back
            // up.
            2.0 * servers * self.gap_ns() / (every.mean() + lasts.mean())
        });
        f64::from(self.world.shards()) * (1.0 + failures)
    }

    /// Returns the world after the change as a separate experiment, or `None` if there is no
    /// change.
    ///
    /// Its utilization is relative to the servers after the change. If their speeds change, requests
    /// still arrive at the rate that gives the requested utilization at the old speeds.
    pub fn after(&self) -> Option<Self> {
        self.world.change_at()?;
        let mut after = Self { world: self.world.unchanged(), ..self.clone() };
        match &self.world {
            World::Shards(Shards { change, .. }) => {
                let change = change.clone()?;
                (after.service, after.jitter) = (change.service, change.jitter);
                if let World::Shards(shards) = &mut after.world {
                    shards.speeds = change.speeds;
                }
                // If the speeds do not change, the ratio is exactly 1, so not even the last digit
                // of the gap changes.
                after.utilization *= self.capacity() / after.capacity();
            }
            World::Shared(shared) => after.utilization = shared.surge.as_ref()?.utilization,
        }
        Some(after)
    }

    /// Returns the mean gap between the measured requests, in ns, and the mean utilization while
    /// they arrive. The utilization includes the jitter of one copy per query.
    pub(crate) fn measured_load(&self) -> (f64, f64) {
        let of = |world: &Self| (world.gap_ns(), world.utilization_with_jitter());
        let Some((at, after)) = self.world.change_at().zip(self.after()) else { return of(self) };
        let Range { start, end } = self.measured();
        let before = (at.clamp(start, end) - start) as f64 / (end - start) as f64;
        let ((gap_before, load_before), (gap, load)) = (of(self), of(&after));
        // A utilization is relative to the product of the replicas' capacity and the length of the
        // period.
        let room_before = before * gap_before * self.capacity();
        let room = (1.0 - before) * gap * after.capacity();
        let share = room_before / (room_before + room);
        (gap + (gap_before - gap) * before, load + (load_before - load) * share)
    }

    /// Returns the measured requests.
    pub(crate) fn measured(&self) -> Range<u64> {
        self.warm_up..self.requests
    }
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
