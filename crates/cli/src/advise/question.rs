//! Turns the arguments, which are numbers or samples, into experiments. If they are samples,
//! hiccups are detected in them.

use std::net::SocketAddr;

use clap::ValueEnum;
use curtail_sim::advise::{SampleSummary, Times, resampled};
use curtail_sim::{Error, Experiment, LONGEST, Parameters, shown};

use super::Args;
use crate::exit::{Stop, bad};
use crate::root::addresses;

/// The utilization of a preliminary experiment, whose arrival rate is used to convert `--rate` to a
/// utilization.
const HALF: f64 = 0.5;

/// What a replica does with a cancelled query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Cancel {
    /// It continues.
    None,
    /// It stops.
    Reset,
}

/// The input, prepared for simulation.
pub(super) struct Asked {
    pub(super) experiment: Experiment,
    /// Repetitions of the experiment, each with a new resample of the samples.
    pub(super) resampled: Vec<Experiment>,
    pub(super) samples: Option<SampleSummary>,
    pub(super) replicas_at: Vec<Vec<SocketAddr>>,
}

/// Checks the arguments and reads the samples.
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
        // The casts cannot overflow: a command line cannot hold that many addresses.
        (parameters.shards, parameters.replicas) = (replicas_at.len() as u32, first.len() as u32);
    }
    if let Some(service) = &args.times.service_time {
        parameters.service.clone_from(service);
    }
    let times = args.samples.as_deref().map(Times::read).transpose();
    let times = times.map_err(Stop::bad)?;
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

/// Converts a rate in requests per second to a utilization. `at_half` is the experiment at a
/// utilization of [`HALF`].
fn utilization(rate: f64, at_half: &Experiment) -> Result<f64, Stop> {
    if !at_half.has_units {
        return Err(bad!(
            "--rate {}: it is per second, but the times have no unit; give them one, such as 5ms, \
             or give --utilization",
            shown(rate)
        ));
    }
    if !(rate > 0.0 && rate.is_finite()) {
        return Err(bad!("--rate {}: give requests per second above 0", shown(rate)));
    }
    Ok(HALF * at_half.gap_ns() * rate / 1e9)
}

/// Parses the addresses of each shard's replicas. All shards must have the same number of replicas.
fn replicas_at(args: &Args) -> Result<Vec<Vec<SocketAddr>>, Stop> {
    let read = |text: &String| addresses("--replicas-at", text);
    let shards: Vec<Vec<SocketAddr>> =
        args.replicas_at.iter().map(read).collect::<Result<_, _>>()?;
    if let Some((first, rest)) = shards.split_first()
        && let Some(other) = rest.iter().find(|other| other.len() != first.len())
    {
        return Err(bad!(
            "--replicas-at: a shard has {} replicas, and another has {}; the advice is for equal \
             shards, so run it for each kind",
            first.len(),
            other.len()
        ));
    }
    Ok(shards)
}

/// Rewords an error so that it does not mention flags that this verb lacks. If the utilization came
/// from `--rate`, the error names that flag.
pub(super) fn bad(rate: Option<f64>, error: Error) -> Stop {
    let of_utilization = matches!(
        &error,
        Error::OutOfRange { name: "utilization", .. } | Error::TooLong { name: "utilization", .. }
    );
    let why = match error {
        Error::TooLong { name, value, allowed } => {
            format!("{name} is {value}; use {allowed}: {LONGEST}")
        }
        other => other.to_string(),
    };
    Stop::BadInput(match rate.filter(|_| of_utilization) {
        Some(rate) => format!("--rate {}: at that rate {why}", shown(rate)),
        None => why,
    })
}
