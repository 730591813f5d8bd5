//! Limits on the cost of an experiment. An experiment within these limits ends, fits into memory,
//! and does not overflow the clock.

use curtail_dist::arrivals::{Arrivals, ArrivalsError};

use crate::calendar::Disturbance;
use crate::error::{Error, shown, wrong};
use crate::experiment::{Experiment, UNIT_NS};
use crate::world::{Shards, World};

/// The limit on the total number of slots of all servers in all shards. Each slot uses a few
/// hundred bytes.
const MOST_SLOTS: u64 = 1 << 22;

/// Limit on the time of the last arrival, in ns (146 years). The clock can represent twice that
/// time.
const LONGEST_NS: f64 = (1_u64 << 62) as f64;

/// The minimum number of requests that arrive after the last counted request.
const MORE_REQUESTS: f64 = 4096.0;

/// Limit on the number of bursts or disturbances between two requests or during one copy, because
/// simulating each one takes time.
const MOST_OFTEN: f64 = 10_000.0;

/// Checks that individually valid values are also valid in combination.
pub(crate) fn check(experiment: &Experiment) -> Result<(), Error> {
    let Experiment { world, service, .. } = experiment;
    let all = experiment.slots_in_all();
    if all > MOST_SLOTS {
        let value = format!("{}, which makes {all} slots in all", world.shards());
        let allowed = format!("fewer, or fewer replicas or slots: at most {MOST_SLOTS} in all");
        return Err(wrong("shards", value, allowed));
    }
    if service.mean() < 1.0 {
        let value = format!("{:e} ns on average", service.mean());
        let allowed = "a mean of 1ns or more, the resolution of time";
        return Err(wrong("service", value, allowed));
    }
    if run_ns(experiment) > LONGEST_NS {
        return Err(too_long(experiment));
    }
    check_bursts(experiment)?;
    let World::Shards(shards) = world else { return Ok(()) };
    let Shards { speeds, slowdown, outages, .. } = shards;
    let slowest = speeds.iter().copied().fold(f64::INFINITY, f64::min);
    let copy_ns = (service.mean() + experiment.mean_jitter()) / slowest;
    let gap_ns = experiment.gap_ns();
    if let Some(slowdown) = slowdown {
        check_often("slowdown", &slowdown.intervals, slowdown.share, [copy_ns, gap_ns])?;
    }
    if let Some(outage) = outages {
        // A copy is lost when its server fails, so it experiences at most one outage.
        check_often("outage", outage, f64::INFINITY, [copy_ns, gap_ns])?;
    }
    Ok(())
}

fn run_ns(experiment: &Experiment) -> f64 {
    experiment.gap_ns() * (experiment.requests as f64 + MORE_REQUESTS)
}

/// Returns the error for a utilization that is too low, or for times that are too long at any
/// utilization.
fn too_long(experiment: &Experiment) -> Error {
    let full = Experiment { utilization: 1.0, ..experiment.clone() };
    // The margin of 10 % covers rounding.
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
         bursts between two requests; use a longer one, or use poisson",
        shortest / UNIT_NS as f64
    );
    Err(ArrivalsError::Malformed { text: experiment.arrivals.to_string(), why }.into())
}

/// Checks how often a disturbance occurs. `share` is a copy's progress during the disturbance,
/// relative to its normal progress.
fn check_often(
    name: &'static str,
    disturbance: &Disturbance,
    share: f64,
    [copy_ns, gap_ns]: [f64; 2],
) -> Result<(), Error> {
    let (every, lasts) = (disturbance.every.mean().max(1.0), disturbance.lasts.mean().max(1.0));
    let per_copy = copy_ns / (every + lasts * share);
    let per_request = gap_ns / (every + lasts);
    let times = per_copy.max(per_request);
    if times <= MOST_OFTEN {
        return Ok(());
    }
    let when = if per_copy > per_request { "during one copy" } else { "between two requests" };
    let value = format!("{times:.1e} times {when}");
    let allowed = format!("longer times, so that it comes up to {MOST_OFTEN} times");
    Err(wrong(name, value, allowed))
}
