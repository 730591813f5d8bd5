//! What is asked: numbers, or samples in which the hiccups are found.

use clap::ValueEnum;
use curtail_dist::read_samples;
use curtail_sim::advise::{Measured, SamplesTold};
use curtail_sim::{Error, Experiment, LONGEST, Parameters, UNIT_NS};

use super::Args;
use crate::exit::Stop;

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

/// Checks what was asked, and reads samples.
pub(super) fn asked(args: &Args) -> Result<Asked, Stop> {
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
    if let Some(path) = &args.samples {
        let read = read_samples(path, UNIT_NS as f64)
            .map_err(|error| Stop::BadInput(error.to_string()))?;
        let name = path.display().to_string();
        let measured = Measured { name, ns: read.ns, have_units: read.have_units };
        let (experiment, told) = measured.experiment(&parameters).map_err(bad)?;
        return Ok(Asked { experiment, samples: Some(told) });
    }
    if let Some(service) = &args.service {
        parameters.service.clone_from(service);
    }
    let experiment = parameters.experiment().map_err(bad)?;
    Ok(Asked { experiment, samples: None })
}

/// What is wrong, without flags that only others have.
fn bad(error: Error) -> Stop {
    Stop::BadInput(match error {
        Error::TooLong { name, value, allowed } => {
            format!("{name} is {value}; give it {allowed}: {LONGEST}")
        }
        other => other.to_string(),
    })
}
