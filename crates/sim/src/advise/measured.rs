//! An experiment of measured service times, in which the hiccups are found.

use curtail_dist::{Distribution, Spec};
use serde::Serialize;

use super::samples::{Found, find_hiccups};
use super::sure::{blocks, resampled_by};
use crate::bounds;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::experiment::UNIT_NS;
use crate::parameters::Parameters;

/// The fewest samples that say something about rare hiccups.
const FEWEST: usize = 100;

/// Service times without queueing.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Where they are from, for messages.
    pub name: String,
    /// In ns.
    pub ns: Vec<f64>,
    /// Were they written with units?
    pub have_units: bool,
}

/// What samples hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SampleSummary {
    /// How many.
    pub count: usize,
    /// Those with a hiccup.
    pub with_hiccup: usize,
    /// Their share.
    pub probability: f64,
    /// The 95 % confidence interval of that (Wilson's).
    pub probability_ci95: [f64; 2],
    /// How long a hiccup is, in the unit of the answer; zero where there is none.
    pub duration: f64,
    /// The 95 % confidence interval of that; none where it is not known.
    pub duration_ci95: Option<[f64; 2]>,
    /// Were hiccups found by `curtail jitter`, in queries that it repeated?
    #[serde(skip)]
    pub of_jitter: bool,
    /// What the answer takes for granted, because no sample shows whether another replica would have
    /// been as slow with the same query.
    pub assumes: &'static str,
}

/// The experiment of these times, which are of so many executions.
pub(super) fn with_times(
    parameters: &Parameters,
    name: &str,
    (service_ns, have_units): (Vec<f64>, bool),
    count: usize,
    jitter: impl FnOnce() -> Result<Option<Distribution>, Error>,
) -> Result<Experiment, Error> {
    let mut experiment = without_times(parameters, have_units)?;
    enough(name, count)?;
    let service = Distribution::from_samples(service_ns, have_units);
    let service = service.filter(|made| made.mean() > 0.0);
    experiment.service = service.ok_or_else(|| all_zero(name))?;
    experiment.jitter = jitter()?;
    experiment.has_units = have_units;
    bounds::check(&experiment)?;
    Ok(experiment)
}

/// An experiment that samples are yet to be put into.
fn without_times(parameters: &Parameters, have_units: bool) -> Result<Experiment, Error> {
    let mut parameters = parameters.clone();
    if have_units {
        // It stands for the samples, whose units those of the arrivals must go with.
        parameters.service = "exp:1ms".to_owned();
    }
    parameters.unbounded()
}

fn enough(name: &str, count: usize) -> Result<(), Error> {
    if count >= FEWEST {
        return Ok(());
    }
    let say = if count == 1 { " says" } else { "s say" };
    let why = format!("{count} sample{say} too little about rare hiccups; give {FEWEST} or more");
    Err(Error::Samples { name: name.to_owned(), why })
}

fn all_zero(name: &str) -> Error {
    let why = "all samples are zero; give service times".to_owned();
    Error::Samples { name: name.to_owned(), why }
}

impl Measured {
    /// The experiment with these in place of service and jitter, and what they hold.
    pub fn experiment(self, parameters: &Parameters) -> Result<(Experiment, SampleSummary), Error> {
        let Self { name, ns, have_units } = self;
        let count = ns.len();
        let found = find_hiccups(&ns);
        let summary = summary(count, found.as_ref());
        let (body, jitter) = match found {
            Some(Found { body, probability, duration, .. }) => {
                (body, Some((probability, duration)))
            }
            None => (ns, None),
        };
        let jitter =
            || jitter.map(|(probability, duration)| hiccups(probability, duration)).transpose();
        let experiment = with_times(parameters, &name, (body, have_units), count, jitter)?;
        Ok((experiment, summary))
    }

    /// The experiments of as many samples that are drawn from these, with replacement, at the arrival
    /// rate of `experiment`, which is that of these: how far they differ is what the samples leave open.
    pub fn resampled(&self, parameters: &Parameters, experiment: &Experiment) -> Vec<Experiment> {
        resampled_by(experiment, |rng| {
            let ns = blocks(&self.ns, 1, rng);
            let made = Self { ns, ..self.clone() }.experiment(parameters).ok()?;
            Some(made.0)
        })
    }
}

fn hiccups(probability: f64, duration_ns: f64) -> Result<Distribution, Error> {
    let text = format!("bimodal:{probability}:{duration_ns}ns");
    let bad = |why: String| Error::Samples { name: text.clone(), why };
    let spec: Spec =
        text.parse().map_err(|error: curtail_dist::ParseError| bad(error.to_string()))?;
    spec.resolve(UNIT_NS as f64).map_err(|error| bad(error.to_string()))
}

fn summary(count: usize, found: Option<&Found>) -> SampleSummary {
    let with_hiccup = found.map_or(0, |found| found.count);
    let (n, z) = (count as f64, 1.96);
    let share = with_hiccup as f64 / n;
    let center = share + z * z / (2.0 * n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let ci95 = [center - half, center + half].map(|end| end / (1.0 + z * z / n));
    SampleSummary {
        count,
        with_hiccup,
        probability: share,
        probability_ci95: ci95.map(|end| end.clamp(0.0, 1.0)),
        duration: found.map_or(0.0, |found| found.duration / UNIT_NS as f64),
        duration_ci95: found.and_then(|found| {
            let half = found.duration_half?;
            Some([-half, half].map(|by| (found.duration + by).max(0.0) / UNIT_NS as f64))
        }),
        of_jitter: false,
        assumes: match found {
            Some(_) => "the long samples are hiccups, and not long queries",
            None => "no sample is a hiccup",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(ns: f64, arrivals: &str) -> Result<(Experiment, SampleSummary), Error> {
        let measured = Measured { name: "samples".to_owned(), ns: vec![ns; 200], have_units: true };
        measured.experiment(&Parameters { arrivals: arrivals.to_owned(), ..Parameters::default() })
    }

    #[test]
    fn bounds_are_those_of_the_samples() {
        let endless = asked(1e10, "on-off:0.5:1us").expect_err("bursts without an end").to_string();
        assert!(endless.contains("more than 10000 bursts between two requests"), "{endless}");
        let fine = asked(1e3, "on-off:0.5:50ns").expect("few bursts");
        assert!((fine.0.service.mean() - 1e3).abs() < 1e-6);
        let below = asked(0.2, "poisson").expect_err("shorter than a tick").to_string();
        assert!(below.contains("the grain of time"), "{below}");
    }
}
