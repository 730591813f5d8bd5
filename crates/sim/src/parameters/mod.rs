//! The parameters of an experiment, as users write them in a file or with flags.

mod shards;
mod shared;
mod units;

use std::fmt::Display;
use std::ops::RangeInclusive;

use curtail_dist::Time;
use curtail_dist::arrivals::Arrivals;
use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::error::{Error, misplaced, shown, wrong};
use crate::experiment::{Experiment, JitterOf, MOST_WINDOWS, UNIT_NS, UtilizationOf, Windows};
use crate::world::{Change, World};
pub(crate) use shards::split_changes;
use units::{Units, check_mean};

/// The allowed ranges of whole-number parameters. The flags of the command line use the same
/// ranges.
pub mod allowed {
    use std::ops::RangeInclusive;

    /// Shards.
    pub const SHARDS: RangeInclusive<u32> = 1..=100_000;
    /// Replicas of each shard.
    pub const REPLICAS: RangeInclusive<u32> = 1..=1_024;
    /// Queries that a replica serves simultaneously.
    pub const SLOTS: RangeInclusive<u32> = 1..=1_024;
    /// Requests per replication.
    pub const REQUESTS: RangeInclusive<u64> = 100..=1_000_000_000_000;
    /// Replications.
    pub const REPLICATIONS: RangeInclusive<u32> = 1..=1_000;
    /// Queries that may wait per shard.
    pub const QUEUE: RangeInclusive<u32> = 1..=10_000_000;
    /// Requests per window.
    pub const WINDOW: RangeInclusive<u64> = 1..=1_000_000_000_000;
}

/// The unchecked parameters of an experiment. Times have the usual syntax.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Parameters {
    /// Number of shards, 1 to 100,000. Every request goes to all of them.
    pub shards: u32,
    /// Replicas of each shard, 1 to 1,024.
    pub replicas: u32,
    /// Number of queries that a replica serves simultaneously, 1 to 1,024.
    pub slots: u32,
    /// The offered utilization, above 0 and up to a million.
    pub utilization: f64,
    /// The work that the utilization includes.
    pub utilization_of: UtilizationOf,
    /// P: the part of the service time that a query's copies share.
    #[serde(alias = "service-time")]
    pub service: String,
    /// J: the part of the service time that each copy draws for itself. `None` or `none` for no
    /// jitter.
    pub jitter: Option<String>,
    /// Whether each copy draws its own jitter or all copies of a query share one.
    pub jitter_of: JitterOf,
    /// Error of cost hints, 0 to 5: the SD in a hint P · exp(SD · Z), where Z is standard normal.
    /// `None` for no hints.
    pub hint_error: Option<f64>,
    /// The arrival process of requests.
    pub arrivals: String,
    /// Requests per replication, including the warm-up, 100 to 10¹².
    pub requests: u64,
    /// Share of the requests that arrive before measuring begins, 0 to 0.9.
    #[serde(alias = "warmup")]
    pub warm_up: f64,
    /// Number of independent replications, for the confidence intervals, 1 to 1,000.
    pub replications: u32,
    /// Seed of all draws.
    pub seed: u64,
    /// Maximum number of queries that wait per shard, and of copies that wait at its replicas. A
    /// run that exceeds it is unstable.
    pub queue: u32,
    /// One-way latency between balancer and replica. `None` or `none` for no latency.
    pub network: Option<String>,
    /// Speed of each replica. Empty if all have speed 1.
    pub speeds: Vec<f64>,
    /// `EVERY/LASTS/SPEED`: slow intervals of each replica. A speed of 0 is a pause.
    pub slowdown: Option<String>,
    /// `EVERY/LASTS`: failures of each replica.
    pub outage: Option<String>,
    /// Time that a replica needs to stop a copy that is executing.
    pub cancel_cost: Option<String>,
    /// Changes during the run: `jitter=…`, `service=…`, `speeds=…`.
    pub change: Vec<String>,
    /// The first request after the change, counted from 0. `None` for the first measured request.
    pub change_at: Option<u64>,
    /// Number of servers that clients share, 1 to 10,000. These servers replace the shards. All
    /// parameters below, except `window`, require it.
    pub servers: Option<u32>,
    /// Number of clients, each with its own cell, 1 to 10,000.
    pub clients: Option<u32>,
    /// Slots of a server in the configuration of each client, 1 to 1,024. `None` stands for the
    /// actual number.
    pub client_slots: Option<u32>,
    /// `D:T`: every T, each server draws its speed from 1 and D.
    pub speed: Option<String>,
    /// `A:B`: a share A of the clients accounts for a share B of the demand.
    pub demand: Option<String>,
    /// `AT:CLIENTS:UTILIZATION`: at the time AT, the demand of the first CLIENTS clients rises so
    /// that the utilization becomes UTILIZATION.
    pub surge: Option<String>,
    /// `AT:FROM:TO`: speed of the first server, FROM before the time AT and TO after it. If FROM is
    /// 0, the server is down until the time AT.
    pub turn: Option<String>,
    /// Share of requests that are served by all servers of the group, rather than only by the one
    /// that responds.
    pub repair: Option<f64>,
    /// Exponent b of C3's ranking.
    pub score_exponent: Option<u32>,
    /// `NAME=VALUE`: parameters of adaptive policies.
    pub tune: Vec<String>,
    /// `NAME[@client][/legacy]:DISTRIBUTION`: stages that copies pass through after the server's
    /// own stage.
    pub stage: Vec<String>,
    /// Delay of each response, in addition to the network latency. The delay is not included in the
    /// server's work.
    pub noise: Option<String>,
    /// Amount of a duplicate's work between two points at which it can be pre-empted. `None` if it
    /// can be pre-empted at any time.
    pub chunk: Option<String>,
    /// Length of the windows in which the load of servers is counted.
    pub load_window: Option<String>,
    /// Whether to report the queue of the first server for each window.
    pub queue_series: bool,
    /// The number of requests per window, for latencies by window, beginning at the change. `None`
    /// for no windows.
    pub window: Option<u64>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            shards: 50,
            replicas: 2,
            slots: 1,
            utilization: 0.3,
            utilization_of: UtilizationOf::Mean,
            service: "exp:1".to_owned(),
            jitter: None,
            jitter_of: JitterOf::Copy,
            hint_error: None,
            arrivals: "poisson".to_owned(),
            requests: 100_000,
            warm_up: 0.1,
            replications: 6,
            seed: 42,
            queue: 100_000,
            network: None,
            speeds: Vec::new(),
            slowdown: None,
            outage: None,
            cancel_cost: None,
            change: Vec::new(),
            change_at: None,
            window: None,
            servers: None,
            clients: None,
            client_slots: None,
            speed: None,
            demand: None,
            surge: None,
            turn: None,
            repair: None,
            score_exponent: None,
            tune: Vec::new(),
            stage: Vec::new(),
            noise: None,
            chunk: None,
            load_window: None,
            queue_series: false,
        }
    }
}

pub(crate) const NONE: &str = "none";
impl Parameters {
    /// Checks the parameters and creates the experiment. Reads the files to which the parameters
    /// refer.
    pub fn experiment(&self) -> Result<Experiment, Error> {
        let experiment = self.unbounded()?;
        bounds::check(&experiment)?;
        if let Some(after) = experiment.after() {
            let text = self.change.join(" ");
            let wrong = |error: Error| Error::Change { text, why: format!("then {error}") };
            bounds::check(&after).map_err(wrong)?;
        }
        Ok(experiment)
    }

    /// Creates the experiment without checking that it ends. The caller checks the bounds of the
    /// complete experiment.
    pub(crate) fn unbounded(&self) -> Result<Experiment, Error> {
        self.check_ranges()?;
        let mut units = Units::default();
        let service = units.distribution("service", &self.service)?;
        check_mean("service", &self.service, &service)?;
        let jitter = units.optional("jitter", self.jitter.as_deref())?;
        let arrivals = Arrivals::parse(&self.arrivals, UNIT_NS as f64)?;
        units.see("arrivals", arrivals.has_units())?;
        let network = units.optional("network", self.network.as_deref())?;
        self.check_world()?;
        let world = match self.servers {
            None => World::Shards(self.shards(&mut units)?),
            Some(servers) => World::Shared(self.shared(servers, &mut units)?),
        };
        let cancel = self.cancel_cost.as_deref().map(|text| cancel_cost(text, &mut units));
        let mut experiment = Experiment {
            world,
            slots: self.slots,
            // If the jitter is always zero, the shards do not have to draw it.
            jitter: jitter.filter(|jitter| jitter.mean() > 0.0),
            jitter_of: self.jitter_of,
            service,
            arrivals,
            utilization: self.utilization,
            utilization_of: self.utilization_of,
            requests: self.requests,
            warm_up: self.first_measured(),
            replications: self.replications,
            seed: self.seed,
            queue: self.queue,
            network,
            cancel_ns: cancel.transpose()?.unwrap_or(0),
            windows: None,
            has_units: false,
        };
        self.complete(&mut experiment, &mut units)?;
        Ok(experiment)
    }

    /// Checks that no parameter of another world is given.
    fn check_world(&self) -> Result<(), Error> {
        let of_shards = [
            ("shards", self.shards != Self::default().shards),
            ("slowdown", self.slowdown.is_some()),
            ("outage", self.outage.is_some()),
            ("change", !self.change.is_empty()),
            ("hint-error", self.hint_error.is_some()),
            ("speeds", !self.speeds.is_empty()),
        ];
        let of_shared = [
            ("clients", self.clients.is_some()),
            ("client-slots", self.client_slots.is_some()),
            ("speed", self.speed.is_some()),
            ("demand", self.demand.is_some()),
            ("surge", self.surge.is_some()),
            ("turn", self.turn.is_some()),
            ("repair", self.repair.is_some()),
            ("score-exponent", self.score_exponent.is_some()),
            ("tune", !self.tune.is_empty()),
            ("stage", !self.stage.is_empty()),
            ("chunk", self.chunk.is_some()),
            ("noise", self.noise.is_some()),
            ("load-window", self.load_window.is_some()),
            ("queue-series", self.queue_series),
        ];
        let (others, why) = match self.servers {
            Some(_) => (
                &of_shards[..],
                "it is only for shards, not for servers that clients share; remove it",
            ),
            None => (
                &of_shared[..],
                "it is for servers that clients share; add them, like --servers 50",
            ),
        };
        match others.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => Err(misplaced(name, why)),
            None => Ok(()),
        }
    }

    /// Adds what depends on the rate of the requests, or on their number.
    fn complete(&self, experiment: &mut Experiment, units: &mut Units) -> Result<(), Error> {
        let at = self.change_at.unwrap_or(experiment.warm_up);
        let windows = |length| Windows { from: at, length, to: experiment.requests };
        experiment.windows = self.window.map(windows);
        let before = experiment.clone();
        match &mut experiment.world {
            World::Shards(shards) if !self.change.is_empty() => {
                let change = Change::read(&self.change, at, &before, &shards.speeds, units)?;
                // A change after the last request would have no effect.
                shards.change = Some(change).filter(|_| at < before.requests);
            }
            World::Shards(_) => {}
            World::Shared(shared) => self.schedule(shared, &before, units)?,
        }
        experiment.has_units = units.have.is_some_and(|(_, have)| have);
        Ok(())
    }

    fn check_ranges(&self) -> Result<(), Error> {
        whole("shards", &self.shards, &allowed::SHARDS)?;
        whole("replicas", &self.replicas, &allowed::REPLICAS)?;
        whole("slots", &self.slots, &allowed::SLOTS)?;
        let own = self.client_slots.unwrap_or(1);
        whole("client-slots", &own, &allowed::SLOTS)?;
        let fewer = format!("{} or fewer: slots is {0}, which is the limit", self.slots);
        let usable = own <= self.slots || self.servers.is_none();
        range("client-slots", &own.to_string(), usable, &fewer)?;
        whole("requests", &self.requests, &allowed::REQUESTS)?;
        whole("replications", &self.replications, &allowed::REPLICATIONS)?;
        whole("queue", &self.queue, &allowed::QUEUE)?;
        let load = self.utilization;
        let usable = load > 0.0 && load <= 1e6;
        range("utilization", &shown(load), usable, "a number above 0 and up to 1e6, like 0.3")?;
        range("warm-up", &shown(self.warm_up), (0.0..=0.9).contains(&self.warm_up), "0 to 0.9")?;
        if let Some(error) = self.hint_error {
            let usable = (0.0..=5.0).contains(&error);
            range("hint-error", &shown(error), usable, "0 to 5; 0 is an exact hint")?;
        }
        if !self.speeds.is_empty() {
            shards::check_speeds(&self.speeds, self.replicas as usize)?;
        }
        self.check_windows()
    }

    fn check_windows(&self) -> Result<(), Error> {
        let Some(length) = self.window else {
            let Some(at) = self.change_at else { return Ok(()) };
            let allowed = "it with a change, like jitter=bimodal:0.01:15, or a window";
            range("change-at", &at, !self.change.is_empty(), allowed)?;
            // If there are windows, a time after the last request is allowed, but the table of
            // windows is then empty.
            let allowed = format!("a number below the {} requests of the run", self.requests);
            return range("change-at", &at, at < self.requests, &allowed);
        };
        whole("window", &length, &allowed::WINDOW)?;
        let from = self.change_at.unwrap_or(self.first_measured());
        let windows = Windows { from, length, to: self.requests };
        let value = format!("{length}, which makes {} windows", windows.count());
        let least = self.requests.saturating_sub(from).div_ceil(MOST_WINDOWS);
        let allowed = format!("{least} or more: up to {MOST_WINDOWS} windows");
        range("window", &value, windows.count() <= MOST_WINDOWS, &allowed)
    }

    fn first_measured(&self) -> u64 {
        (self.requests as f64 * self.warm_up) as u64
    }
}

fn whole<T: PartialOrd + Display>(
    name: &'static str,
    value: &T,
    allowed: &RangeInclusive<T>,
) -> Result<(), Error> {
    let words = format!("{} to {}", allowed.start(), allowed.end());
    range(name, value, allowed.contains(value), &words)
}

fn range(name: &'static str, value: &dyn ToString, fits: bool, allowed: &str) -> Result<(), Error> {
    if fits {
        return Ok(());
    }
    Err(wrong(name, value.to_string(), allowed))
}

/// Parses a single time, not a distribution.
fn cancel_cost(text: &str, units: &mut Units) -> Result<u64, Error> {
    let time: Option<Time> = text.parse().ok();
    if !time.is_some_and(|time| time.number >= 0.0) {
        return Err(wrong("cancel-cost", text, "one time, like 2 or 500us"));
    }
    units.time("cancel-cost", text)
}
