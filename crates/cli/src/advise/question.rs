//! What is asked: numbers, or samples in which the hiccups are found.

use std::net::SocketAddr;

use clap::ValueEnum;
use curtail_sim::advise::{SampleSummary, Times, resampled};
use curtail_sim::{Error, Experiment, LONGEST, Parameters, shown};

use super::Args;
use crate::exit::Stop;
use crate::root::addresses;

/// A utilization that is good enough to ask for the rate that comes to it.
const HALF: f64 = 0.5;

/// What a replica does with a query that is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Cancel {
    /// It goes on.
    None,
    /// It stops.
    Reset,
}

/// The question, ready to be simulated.
pub(super) struct Asked {
    pub(super) experiment: Experiment,
    /// The same, of samples drawn from its samples.
    pub(super) resampled: Vec<Experiment>,
    pub(super) samples: Option<SampleSummary>,
    pub(super) replicas_at: Vec<Vec<SocketAddr>>,
}

/// Checks what was asked, and reads samples.
pub(super) fn asked(args: &Args, slots: u32) -> Result<Asked, Stop> {
    let replicas_at = replicas_at(args)?;
    let mut parameters = Parameters {
        shards: args.shards,
        replicas: args.replicas,
        slots,
        utilization: args.utilization.unwrap_or(HALF),
        utilization_of: args.utilization_of,
        jitter: args.times.jitter.clone(),
        arrivals: args.arrivals.clone(),
        seed: args.seed.seed,
        ..Parameters::default()
    };
    if let Some(first) = replicas_at.first() {
        // No more than fit into a line of arguments.
        (parameters.shards, parameters.replicas) = (replicas_at.len() as u32, first.len() as u32);
    }
    if let Some(service) = &args.times.service_time {
        parameters.service.clone_from(service);
    }
    let times = args.samples.as_deref().map(Times::read).transpose();
    let times = times.map_err(|error| Stop::BadInput(error.to_string()))?;
    let experiment = |parameters: &Parameters| match &times {
        None => parameters.experiment().map(|made| (made, None)),
        Some(times) => times.experiment(parameters),
    };
    if let Some(rate) = args.rate {
        let at_half = experiment(&parameters).map_err(|error| bad(None, error))?.0;
        parameters.utilization = utilization(rate, &at_half)?;
    }
    let made = experiment(&parameters).map_err(|error| bad(args.rate, error));
    let (experiment, samples) = made?;
    let resampled = match &times {
        Some(times) => times.resampled(&parameters, &experiment),
        None => resampled(&experiment),
    };
    Ok(Asked { experiment, resampled, samples, replicas_at })
}

/// The utilization that so many requests per second come to. `at_half`: the experiment at [`HALF`].
fn utilization(rate: f64, at_half: &Experiment) -> Result<f64, Stop> {
    if !at_half.has_units {
        return Err(Stop::BadInput(format!(
            "--rate {}: it is per second, and the times have no unit; write them with one, as 5ms, or \
             give --utilization",
            shown(rate)
        )));
    }
    if !(rate > 0.0 && rate.is_finite()) {
        return Err(Stop::BadInput(format!(
            "--rate {}: give requests per second above 0",
            shown(rate)
        )));
    }
    Ok(HALF * at_half.gap_ns() * rate / 1e9)
}

/// The addresses of each shard's replicas, of as many in each.
fn replicas_at(args: &Args) -> Result<Vec<Vec<SocketAddr>>, Stop> {
    let read = |text: &String| addresses("--replicas-at", text);
    let shards: Vec<Vec<SocketAddr>> =
        args.replicas_at.iter().map(read).collect::<Result<_, _>>()?;
    if let Some((first, rest)) = shards.split_first()
        && let Some(other) = rest.iter().find(|other| other.len() != first.len())
    {
        return Err(Stop::BadInput(format!(
            "--replicas-at: a shard has {} replicas, and another has {}; advice is for shards that are \
             alike, so ask for each kind",
            first.len(),
            other.len()
        )));
    }
    Ok(shards)
}

/// What is wrong, without flags that only others have. A utilization that nobody gave comes of the rate.
pub(super) fn bad(rate: Option<f64>, error: Error) -> Stop {
    let of_utilization = matches!(
        &error,
        Error::OutOfRange { name: "utilization", .. } | Error::TooLong { name: "utilization", .. }
    );
    let why = match error {
        Error::TooLong { name, value, allowed } => {
            format!("{name} is {value}; give it {allowed}: {LONGEST}")
        }
        other => other.to_string(),
    };
    Stop::BadInput(match rate.filter(|_| of_utilization) {
        Some(rate) => format!("--rate {}: at that rate {why}", shown(rate)),
        None => why,
    })
}
