//! What an experiment may cost: whatever passes here ends, and fits into memory and into the clock.

use curtail_dist::Distribution;

use crate::calendar::Disturbance;
use crate::error::{Error, shown};
use crate::experiment::Experiment;
use crate::experiment::UNIT_NS;
use curtail_dist::arrivals::{Arrivals, ArrivalsError};

/// Slots of all servers of all shards; each costs some hundred bytes.
const MOST_SLOTS: u64 = 1 << 22;

/// How long arrivals may take, in ns (146 years): the clock has room for as long again.
const LONGEST_NS: f64 = (1_u64 << 62) as f64;

/// Requests that come after the last one that is counted, at the least.
const MORE_REQUESTS: f64 = 4096.0;

/// How often something may happen between two requests, or during one copy: simulating it costs
/// time each time.
const MOST_OFTEN: f64 = 10_000.0;

/// Checks values that are fine each for itself, but not together.
pub(crate) fn check(experiment: &Experiment) -> Result<(), Error> {
    let Experiment { shards, service, .. } = experiment;
    let all = experiment.slots_in_all();
    if all > MOST_SLOTS {
        let value = format!("{shards}, which makes {all} slots in all");
        let allowed = format!("fewer, or fewer replicas or slots: {MOST_SLOTS} in all");
        return Err(Error::OutOfRange { name: "shards", value, allowed });
    }
    if service.mean() < 1.0 {
        let value = format!("{:e} ns on average", service.mean());
        let allowed = "a mean of 1ns or more, the grain of time".to_owned();
        return Err(Error::OutOfRange { name: "service", value, allowed });
    }
    if run_ns(experiment) > LONGEST_NS {
        return Err(too_long(experiment));
    }
    check_bursts(experiment)?;
    if let Some((slowdown, share)) = &experiment.slowdown {
        check_often("slowdown", slowdown, *share, experiment)?;
    }
    if let Some(outage) = &experiment.outages {
        // A copy ends with its server: it sees one at most.
        check_often("outage", outage, f64::INFINITY, experiment)?;
    }
    Ok(())
}

fn run_ns(experiment: &Experiment) -> f64 {
    experiment.gap_ns() * (experiment.requests as f64 + MORE_REQUESTS)
}

/// The load is too low, or times are too long for any load.
fn too_long(experiment: &Experiment) -> Error {
    let full = Experiment { utilization: 1.0, ..experiment.clone() };
    // With what rounding takes away.
    let least = 1.1 * run_ns(&full) / LONGEST_NS;
    if least < 1.0 {
        let value = shown(experiment.utilization);
        return Error::TooLong {
            name: "utilization",
            value,
            allowed: format!("{least:.1e} at least"),
        };
    }
    let value = format!("{:e} ns on average", experiment.service.mean());
    Error::TooLong { name: "service", value, allowed: "shorter times".to_owned() }
}

fn check_bursts(experiment: &Experiment) -> Result<(), Error> {
    let Arrivals::Modulated { share, length_ns, .. } = experiment.arrivals else { return Ok(()) };
    let shortest = experiment.gap_ns() * share / MOST_OFTEN;
    if length_ns >= shortest {
        return Ok(());
    }
    let why = format!(
        "a LENGTH below {:.1e} (in ms, or in the experiment's unit) makes more than {MOST_OFTEN} \
         bursts between two requests; give it more, or use poisson",
        shortest / UNIT_NS as f64
    );
    Err(ArrivalsError::Malformed { text: experiment.arrivals.to_string(), why }.into())
}

/// `share` is what a copy gets done while it lasts, as a share of what it gets done otherwise.
fn check_often(
    name: &'static str,
    disturbance: &Disturbance,
    share: f64,
    experiment: &Experiment,
) -> Result<(), Error> {
    let (every, lasts) = (disturbance.every.mean().max(1.0), disturbance.lasts.mean().max(1.0));
    let slowest = experiment.servers.iter().copied().fold(f64::INFINITY, f64::min);
    let jitter = experiment.jitter.as_ref().map_or(0.0, Distribution::mean);
    let copy_ns = (experiment.service.mean() + jitter) / slowest;
    let per_copy = copy_ns / (every + lasts * share);
    let per_request = experiment.gap_ns() / (every + lasts);
    let times = per_copy.max(per_request);
    if times <= MOST_OFTEN {
        return Ok(());
    }
    let when = if per_copy > per_request { "during one copy" } else { "between two requests" };
    let value = format!("{times:.1e} times {when}");
    let allowed = format!("longer times, so that it comes up to {MOST_OFTEN} times");
    Err(Error::OutOfRange { name, value, allowed })
}
