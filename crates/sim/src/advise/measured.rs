//! An experiment with measured service times, from which hiccups are extracted.

use curtail_dist::{Distribution, Spec};
use serde::Serialize;

use super::samples::{Found, find_hiccups};
use super::sure::{blocks, resampled_by};
use crate::bounds;
use crate::error::Error;
use crate::experiment::{Experiment, UNIT_NS};
use crate::parameters::Parameters;

/// The minimum number of samples. Fewer samples would not show rare hiccups.
const FEWEST: usize = 100;

/// Service times without queueing.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The source of the times, for messages.
    pub name: String,
    /// The times in ns.
    pub ns: Vec<f64>,
    /// Whether the times were written with units.
    pub have_units: bool,
}

/// A summary of samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SampleSummary {
    /// The number of samples.
    pub count: usize,
    /// The number of samples with a hiccup.
    pub with_hiccup: usize,
    /// The share of samples with a hiccup.
    pub probability: f64,
    /// 95 % confidence interval of that share (Wilson's).
    pub probability_ci95: [f64; 2],
    /// The mean length of a hiccup, in the unit of the answer. It is zero without hiccups.
    pub duration: f64,
    /// 95 % confidence interval of that length. `None` if it is unknown.
    pub duration_ci95: Option<[f64; 2]>,
    /// Whether the hiccups were found by `curtail jitter`, which repeats queries.
    #[serde(skip)]
    pub of_jitter: bool,
    /// The assumption behind the answer. Samples do not show whether another replica would have
    /// been just as slow with the same query.
    pub assumes: &'static str,
}

/// Returns the experiment with these service times, which come from `count` executions.
pub(super) fn with_times(
    parameters: &Parameters,
    service: Measured,
    count: usize,
    jitter: impl FnOnce() -> Result<Option<Distribution>, Error>,
) -> Result<Experiment, Error> {
    let Measured { name, ns, have_units } = service;
    let mut parameters = parameters.clone();
    if have_units {
        // A placeholder for the samples. Its unit must match the units of the arrivals.
        parameters.service = "exp:1ms".to_owned();
    }
    let mut experiment = parameters.unbounded()?;
    let bad = |why| Error::Samples { name: name.clone(), why };
    if count < FEWEST {
        let say = if count == 1 { " is" } else { "s are" };
        let why = format!("{count} sample{say} too few for rare hiccups; use {FEWEST} or more");
        return Err(bad(why));
    }
    let service = Distribution::from_samples(ns, have_units);
    let service = service.filter(|made| made.mean() > 0.0);
    let all_zero = || bad("all samples are zero; use service times".to_owned());
    experiment.service = service.ok_or_else(all_zero)?;
    experiment.jitter = jitter()?;
    experiment.has_units = have_units;
    bounds::check(&experiment)?;
    Ok(experiment)
}

impl Measured {
    /// Returns the experiment whose service times and jitter come from these samples, and a summary
    /// of the samples.
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
        let body = Self { name, ns: body, have_units };
        let experiment = with_times(parameters, body, count, jitter)?;
        Ok((experiment, summary))
    }

    /// Returns experiments whose samples are drawn from these with replacement, with the same
    /// number of samples in each. Their arrival rate is that of `experiment`, which uses these
    /// samples. The differences between them show the uncertainty due to the samples.
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
            Some(_) => "the long samples are hiccups, not long queries",
            None => "no sample is a hiccup",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(ns: f64, arrivals: &str) -> Result<(Experiment, SampleSummary), Error> {
        let measured = Measured { name: "samples".to_owned(), ns: vec![ns; 200], have_units: true };
        measured.experiment(&Parameters { arrivals: arrivals.to_owned(), ..Parameters::default() })
    }

    #[test]
    fn bounds_are_those_of_the_samples() {
        let endless = made(1e10, "on-off:0.5:1us").expect_err("bursts without an end").to_string();
        assert!(endless.contains("more than 10000 bursts between two requests"), "{endless}");
        let fine = made(1e3, "on-off:0.5:50ns").expect("few bursts");
        assert!((fine.0.service.mean() - 1e3).abs() < 1e-6);
        let below = made(0.2, "poisson").expect_err("shorter than a tick").to_string();
        assert!(below.contains("the resolution of time"), "{below}");
    }
}
