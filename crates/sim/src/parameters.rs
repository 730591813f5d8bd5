//! The parameters of an experiment, as users write them in a file or with flags.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::calendar::Disturbance;
use crate::error::{Error, shown};
use crate::experiment::{
    Change, Experiment, JitterOf, MOST_WINDOWS, UNIT_NS, UtilizationOf, Windows,
};
use curtail_dist::arrivals::Arrivals;
use curtail_dist::{Distribution, Spec, Time};

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
const SLOWDOWN: &str = "EVERY/LASTS/SPEED, like exp:1000/exp:50/0.2; a SPEED of 0 is a pause";
const OUTAGE: &str = "EVERY/LASTS, like exp:100000/det:500";

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
        let slowdown = self.slowdown.as_deref().map(|text| slowdown(text, &mut units));
        let outages = self.outage.as_deref().map(|text| outage(text, &mut units));
        let cancel = self.cancel_cost.as_deref().map(|text| cancel_cost(text, &mut units));
        let mut experiment = Experiment {
            shards: self.shards,
            servers: if self.speeds.is_empty() {
                vec![1.0; self.replicas as usize]
            } else {
                self.speeds.clone()
            },
            slots: self.slots,
            // If the jitter is always zero, the shards do not have to draw it.
            jitter: jitter.filter(|jitter| jitter.mean() > 0.0),
            jitter_of: self.jitter_of,
            hint_error: self.hint_error,
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
            slowdown: slowdown.transpose()?,
            outages: outages.transpose()?,
            cancel_ns: cancel.transpose()?.unwrap_or(0),
            change: None,
            windows: None,
            shared: None,
            has_units: false,
        };
        self.share(&mut experiment, &mut units)?;
        self.complete(&mut experiment, &mut units)?;
        Ok(experiment)
    }

    /// Replaces shards with servers that clients share.
    fn share(&self, experiment: &mut Experiment, units: &mut Units) -> Result<(), Error> {
        let read = |name, text: &str| units.distribution(name, text);
        let Some((servers, mut shared)) = self.shared(read)? else { return Ok(()) };
        let unusable = [
            ("shards", self.shards != Self::default().shards),
            ("speeds", !self.speeds.is_empty()),
            ("slowdown", self.slowdown.is_some()),
            ("outage", self.outage.is_some()),
            ("change", !self.change.is_empty()),
            ("hint-error", self.hint_error.is_some()),
        ];
        if let Some(&(name, _)) = unusable.iter().find(|(_, is_given)| *is_given) {
            let why =
                "it is only for shards, not for servers that clients share; remove it".to_owned();
            return Err(Error::Misplaced { name, why });
        }
        // The capacity is computed from the mean of the speeds.
        let speed = shared.speed.map_or(1.0, |speed| f64::midpoint(1.0, speed.factor));
        experiment.shards = 1;
        experiment.servers = vec![speed; servers as usize];
        if let Some(turn) = shared.turn {
            arrivals_before("turn", turn.at_ns, experiment)?;
        }
        if let Some(surge) = &mut shared.surge {
            surge.before = experiment.utilization;
            experiment.change = Some(Change {
                at: arrivals_before("surge", surge.at_ns, experiment)?,
                texts: self.surge.iter().map(|text| format!("surge={text}")).collect(),
                service: experiment.service.clone(),
                jitter: experiment.jitter.clone(),
                servers: experiment.servers.clone(),
            });
        }
        experiment.shared = Some(shared);
        Ok(())
    }

    fn complete(&self, experiment: &mut Experiment, units: &mut Units) -> Result<(), Error> {
        let at = self.change_at.unwrap_or(experiment.warm_up);
        if !self.change.is_empty() {
            let change = Change::read(self, at, experiment, units)?;
            // A change after the last request would have no effect.
            experiment.change = Some(change).filter(|_| at < experiment.requests);
        }
        let windows = |length| Windows { from: at, length, to: experiment.requests };
        experiment.windows = self.window.map(windows);
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
            check_speeds(&self.speeds, self.replicas as usize)?;
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

fn check_speeds(speeds: &[f64], replicas: usize) -> Result<(), Error> {
    let list = format!("{speeds:?}");
    let allowed = format!("one speed for each of the {replicas} replicas");
    range("speeds", &list, speeds.len() == replicas, &allowed)?;
    let usable = |speed: &f64| (1e-6..=1e6).contains(speed);
    range("speeds", &list, speeds.iter().all(usable), "numbers from 1e-6 to 1e6")
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
    Err(Error::OutOfRange { name, value: value.to_string(), allowed: allowed.to_owned() })
}

/// Checks that either all or none of the times of an experiment have units.
#[derive(Debug, Default)]
struct Units {
    /// The first parameter that contains times, and whether these have units.
    have: Option<(&'static str, bool)>,
}

impl Units {
    fn see(&mut self, name: &'static str, has: Option<bool>) -> Result<(), Error> {
        let Some(has) = has else { return Ok(()) };
        match *self.have.get_or_insert((name, has)) {
            (_, before) if before == has => Ok(()),
            (with, true) => Err(Error::MixedUnits { with, without: name }),
            (without, false) => Err(Error::MixedUnits { with: name, without }),
        }
    }

    fn distribution(&mut self, name: &'static str, text: &str) -> Result<Distribution, Error> {
        let spec: Spec = text.parse().map_err(|source| Error::Distribution { name, source })?;
        let made =
            spec.resolve(UNIT_NS as f64).map_err(|source| Error::Unusable { name, source })?;
        self.see(name, made.has_units())?;
        Ok(made)
    }

    fn optional(
        &mut self,
        name: &'static str,
        text: Option<&str>,
    ) -> Result<Option<Distribution>, Error> {
        let Some(text) = text.filter(|text| *text != NONE) else { return Ok(None) };
        let made = self.distribution(name, text)?;
        check_finite(name, text, &made)?;
        Ok(Some(made))
    }

    fn disturbance(
        &mut self,
        name: &'static str,
        every: &str,
        lasts: &str,
    ) -> Result<Disturbance, Error> {
        let made = Disturbance {
            every: self.distribution(name, every)?,
            lasts: self.distribution(name, lasts)?,
        };
        check_mean(name, every, &made.every)?;
        check_mean(name, lasts, &made.lasts)?;
        Ok(made)
    }
}

fn check_mean(name: &'static str, text: &str, of: &Distribution) -> Result<(), Error> {
    if of.mean() > 0.0 { check_finite(name, text, of) } else { Err(no_mean(name, text, of)) }
}

fn check_finite(name: &'static str, text: &str, of: &Distribution) -> Result<(), Error> {
    if of.mean().is_finite() { Ok(()) } else { Err(no_mean(name, text, of)) }
}

fn no_mean(name: &'static str, text: &str, of: &Distribution) -> Error {
    Error::NoMean { name, text: text.to_owned(), mean: of.mean() / UNIT_NS as f64 }
}

/// Parses a single time, not a distribution.
fn cancel_cost(text: &str, units: &mut Units) -> Result<u64, Error> {
    let time: Option<Time> = text.parse().ok();
    if !time.is_some_and(|time| time.number >= 0.0) {
        let allowed = "one time, like 2 or 500us".to_owned();
        return Err(Error::OutOfRange { name: "cancel-cost", value: text.to_owned(), allowed });
    }
    Ok(units.distribution("cancel-cost", &format!("det:{text}"))?.mean() as u64)
}

fn slowdown(text: &str, units: &mut Units) -> Result<(Disturbance, f64), Error> {
    let bad = |why: &str| malformed("slowdown", text, SLOWDOWN, why);
    let mut parts = text.rsplitn(2, '/');
    let (Some(speed), Some(rest)) = (parts.next(), parts.next()) else { return Err(bad("")) };
    let (every, lasts) = halves(rest).map_err(|why| bad(&why))?;
    let share = speed.parse().ok().filter(|speed: &f64| (0.0..=1e6).contains(speed));
    let share = share.ok_or_else(|| bad(&format!("SPEED is {speed:?}")))?;
    Ok((units.disturbance("slowdown", every, lasts)?, share))
}

fn outage(text: &str, units: &mut Units) -> Result<Disturbance, Error> {
    let (every, lasts) = halves(text).map_err(|why| malformed("outage", text, OUTAGE, &why))?;
    units.disturbance("outage", every, lasts)
}

/// Splits a text into two distributions at a slash. Paths may also contain slashes, so the slashes
/// are tried from the right until both parts can be parsed.
fn halves(text: &str) -> Result<(&str, &str), String> {
    let mut why = String::new();
    for (at, _) in text.rmatch_indices('/') {
        let (every, lasts) = (&text[..at], &text[at + 1..]);
        match (every.parse::<Spec>(), lasts.parse::<Spec>()) {
            (Ok(_), Ok(_)) => return Ok((every, lasts)),
            (Ok(_), Err(error)) | (Err(error), Ok(_)) if why.is_empty() => why = error.to_string(),
            _ => {}
        }
    }
    Err(why)
}

fn malformed(name: &'static str, text: &str, form: &'static str, why: &str) -> Error {
    Error::Disturbance { name, text: text.to_owned(), form, why: why.to_owned() }
}

/// Keys of changes. A value has the same syntax as the parameter with the same name.
const KEYS: [&str; 3] = ["jitter", "service", "speeds"];

const FORM: &str =
    "write KEY=VALUE with the key jitter, service or speeds, like jitter=bimodal:0.01:15";

impl Change {
    /// Reads the changes of `parameters`. `before` is the experiment without them.
    fn read(
        parameters: &Parameters,
        at: u64,
        before: &Experiment,
        units: &mut Units,
    ) -> Result<Self, Error> {
        let mut change = Self {
            at,
            texts: parameters.change.clone(),
            service: before.service.clone(),
            jitter: before.jitter.clone(),
            servers: before.servers.clone(),
        };
        let mut seen = Vec::new();
        for text in &parameters.change {
            let wrong = |why: String| Error::Change { text: text.clone(), why };
            let split = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            let Some((key, value)) = split.filter(|(key, _)| KEYS.contains(key)) else {
                return Err(wrong(FORM.to_owned()));
            };
            if seen.contains(&key) {
                return Err(wrong(format!("{key} changes twice; remove one of them")));
            }
            seen.push(key);
            change.set(key, value, units).map_err(|error| wrong(error.to_string()))?;
        }
        Ok(change)
    }

    fn set(&mut self, key: &str, value: &str, units: &mut Units) -> Result<(), Error> {
        match key {
            "jitter" => {
                let jitter = units.optional("jitter", Some(value))?;
                self.jitter = jitter.filter(|jitter| jitter.mean() > 0.0);
            }
            "service" => {
                self.service = units.distribution("service", value)?;
                check_mean("service", value, &self.service)?;
            }
            _ => {
                let speeds = value.split(',').map(|speed| speed.trim().parse::<f64>());
                let speeds: Result<Vec<f64>, _> = speeds.collect();
                let speeds = speeds.map_err(|_| Error::OutOfRange {
                    name: "speeds",
                    value: value.to_owned(),
                    allowed: "numbers, like 1,0.5".to_owned(),
                })?;
                check_speeds(&speeds, self.servers.len())?;
                self.servers = speeds;
            }
        }
        Ok(())
    }
}

/// Splits a text with several changes, such as `jitter=none,speeds=1,0.5`, at each comma before a
/// key.
pub(crate) fn split_changes(text: &str) -> Vec<String> {
    let mut changes: Vec<String> = Vec::new();
    for part in text.split(',') {
        let begins = part.split_once('=').is_some_and(|(key, _)| KEYS.contains(&key.trim()));
        match changes.last_mut() {
            Some(last) if !begins => *last = format!("{last},{part}"),
            _ => changes.push(part.to_owned()),
        }
    }
    changes
}

/// Returns the expected number of arrivals before a time, which must come before the last request.
fn arrivals_before(name: &'static str, at_ns: u64, of: &Experiment) -> Result<u64, Error> {
    let (arrivals, requests) = ((at_ns as f64 / of.gap_ns()).round() as u64, of.requests);
    if arrivals < requests {
        return Ok(arrivals);
    }
    let why = format!("it comes after the last of {requests} requests; use more requests");
    Err(Error::Misplaced { name, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_before_a_key_divides_changes() {
        for (text, changes) in [
            ("jitter=none", &["jitter=none"][..]),
            (
                "jitter=none,speeds=1,0.5,service=exp:2",
                &["jitter=none", "speeds=1,0.5", "service=exp:2"],
            ),
            ("service=file:a,b=c", &["service=file:a,b=c"]),
            ("jitters=1", &["jitters=1"]),
            ("", &[""]),
        ] {
            assert_eq!(split_changes(text), changes, "{text}");
        }
    }
}
