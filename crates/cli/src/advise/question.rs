//! What is asked: numbers, or samples in which the hiccups are found.

use std::path::Path;

use clap::ValueEnum;
use curtail_dist::{Distribution, Spec, read_samples};
use curtail_sim::advise::{Found, find_hiccups};
use curtail_sim::{Experiment, Parameters, UNIT_NS};
use serde::Serialize;

use super::Args;
use crate::exit::Stop;

/// The fewest samples that say something about rare hiccups.
const FEWEST: usize = 100;

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
    pub(super) samples: Option<SamplesTold>,
}

/// What samples hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SamplesTold {
    /// How many.
    pub(super) count: usize,
    /// Those with a hiccup.
    pub(super) with_hiccup: usize,
    /// Their share, and its 95 % confidence interval (Wilson's).
    pub(super) probability: f64,
    pub(super) probability_ci95: [f64; 2],
    /// How long a hiccup is, in the unit of the answer; zero where there is none.
    pub(super) duration: f64,
}

/// Checks what was asked, and reads samples.
pub(super) fn asked(args: &Args) -> Result<Asked, Stop> {
    let bad = |error: &dyn std::fmt::Display| Stop::BadInput(error.to_string());
    let samples = args.samples.as_deref().map(|path| {
        read_samples(path, UNIT_NS as f64).map(|samples| (path, samples)).map_err(|e| bad(&e))
    });
    let samples = samples.transpose()?;
    let mut parameters = Parameters {
        shards: args.shards,
        replicas: args.replicas,
        slots: args.slots,
        utilization: args.utilization,
        utilization_of: args.utilization_of,
        jitter: args.jitter.clone(),
        arrivals: args.arrivals.clone(),
        seed: args.seed,
        ..Parameters::default()
    };
    if let Some(service) = &args.service {
        parameters.service.clone_from(service);
    } else if samples.as_ref().is_some_and(|(_, samples)| samples.have_units) {
        // It stands for the samples, whose units those of the arrivals must go with.
        parameters.service = "exp:1ms".to_owned();
    }
    let mut experiment = parameters.experiment().map_err(|error| bad(&error))?;
    let Some((path, samples)) = samples else { return Ok(Asked { experiment, samples: None }) };
    let count = samples.ns.len();
    if count < FEWEST {
        return Err(Stop::BadInput(format!(
            "{}: {count} samples say too little about rare hiccups; give {FEWEST} or more",
            path.display()
        )));
    }
    let found = find_hiccups(&samples.ns);
    let told = told(count, found.as_ref());
    let (body, jitter) = match found {
        Some(Found { body, probability, duration, .. }) => (body, Some((probability, duration))),
        None => (samples.ns, None),
    };
    experiment.service = service(path, body, samples.have_units)?;
    experiment.jitter =
        jitter.map(|(probability, duration)| hiccups(probability, duration)).transpose()?;
    experiment.has_units = samples.have_units;
    Ok(Asked { experiment, samples: Some(told) })
}

fn service(path: &Path, body: Vec<f64>, have_units: bool) -> Result<Distribution, Stop> {
    let made = Distribution::from_samples(body, have_units).filter(|made| made.mean() > 0.0);
    made.ok_or_else(|| {
        Stop::BadInput(format!("{}: all samples are zero; give service times", path.display()))
    })
}

fn hiccups(probability: f64, duration_ns: f64) -> Result<Distribution, Stop> {
    let text = format!("bimodal:{probability}:{duration_ns}ns");
    let spec: Spec = text.parse().map_err(|error| Stop::BadInput(format!("{text}: {error}")))?;
    spec.resolve(UNIT_NS as f64).map_err(|error| Stop::BadInput(format!("{text}: {error}")))
}

fn told(count: usize, found: Option<&Found>) -> SamplesTold {
    let with_hiccup = found.map_or(0, |found| found.count);
    let (n, z) = (count as f64, 1.96);
    let share = with_hiccup as f64 / n;
    let center = share + z * z / (2.0 * n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let ci95 = [center - half, center + half].map(|end| end / (1.0 + z * z / n));
    SamplesTold {
        count,
        with_hiccup,
        probability: share,
        probability_ci95: ci95.map(|end| end.clamp(0.0, 1.0)),
        duration: found.map_or(0.0, |found| found.duration / UNIT_NS as f64),
    }
}
