//! Reads measured times in their usual forms: a file of service times, or a directory written by
//! `curtail jitter`. Both the command line and the Python package use this module.

use std::path::Path;

use curtail_dist::{Distribution, ResolveError, Samples, read_samples, read_text};
use serde::Deserialize;

use super::measured::{Measured, SampleSummary, with_times};
use super::sure::{blocks, resampled_by};
use crate::error::Error;
use crate::experiment::{Experiment, UNIT_NS};
use crate::parameters::Parameters;

/// In a directory written by `curtail jitter`: The P of each query, one per line.
pub const P: &str = "p.txt";
/// The J of each execution, one per line, in the order of execution.
pub const J: &str = "j.txt";
/// The hiccups that `curtail jitter` found in them, as JSON.
pub const FOUND: &str = "result.json";

/// The number of blocks in which executions are resampled, because hiccups occur in clusters.
/// `curtail jitter` divides the executions into the same number of parts.
const BLOCKS: usize = 30;

/// Measured times.
#[derive(Clone, Debug)]
pub enum Times {
    /// Service times of different queries.
    Measured(Measured),
    /// Times of repeated queries.
    Repeated(Repeated),
}

/// P of each query and J of each execution, from repeated executions.
#[derive(Clone, Debug)]
pub struct Repeated {
    /// The source of the times, for messages.
    pub name: String,
    /// P of each query, in ns.
    pub p_ns: Vec<f64>,
    /// J of each execution, in ns, in the order of execution.
    pub j_ns: Vec<f64>,
    /// Whether the times were written with units.
    pub have_units: bool,
    /// The hiccups that `curtail jitter` found in them. `None` if its result is missing.
    pub found: Option<SampleSummary>,
}

/// The part of a `curtail jitter` result that this module reads.
#[derive(Deserialize)]
struct Found {
    queries: usize,
    executions: usize,
    seen: Seen,
}

/// All hiccups, regardless of their cause.
#[derive(Deserialize)]
struct Seen {
    probability: f64,
    probability_ci95: [f64; 2],
    duration_ns: Option<f64>,
    duration_ci95: Option<[f64; 2]>,
}

impl Times {
    /// Reads a file or a directory.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let read = |path: &Path| read_samples(path, UNIT_NS as f64);
        let name = path.display().to_string();
        if !path.is_dir() {
            let Samples { ns, have_units, .. } = read(path)?;
            return Ok(Self::Measured(Measured { name, ns, have_units }));
        }
        if let Some(missing) = [P, J].into_iter().find(|file| !path.join(file).exists()) {
            let why = format!(
                "{missing} is missing; use a folder that curtail jitter --out has written, or a \
                 file of service times"
            );
            return Err(Error::Samples { name, why });
        }
        let (p, j) = (read(&path.join(P))?, read(&path.join(J))?);
        let have_units = p.have_units && j.have_units;
        let found = match path.join(FOUND) {
            result if result.exists() => Some(found(&result, [p.ns.len(), j.ns.len()])?),
            _ => None,
        };
        Ok(Self::Repeated(Repeated { name, p_ns: p.ns, j_ns: j.ns, have_units, found }))
    }

    /// Returns the experiment whose service times and jitter come from these times, and a summary
    /// of the times.
    pub fn experiment(
        &self,
        parameters: &Parameters,
    ) -> Result<(Experiment, Option<SampleSummary>), Error> {
        match self {
            Self::Measured(of) => {
                of.clone().experiment(parameters).map(|(made, summary)| (made, Some(summary)))
            }
            Self::Repeated(of) => {
                of.clone().experiment(parameters).map(|made| (made, of.found.clone()))
            }
        }
    }

    /// Returns experiments whose times are drawn from these. Each has the same number of times.
    /// Their arrival rate is that of `experiment`, which uses these times. The differences between
    /// them show the uncertainty due to the samples.
    pub fn resampled(&self, parameters: &Parameters, experiment: &Experiment) -> Vec<Experiment> {
        match self {
            Self::Measured(of) => of.resampled(parameters, experiment),
            Self::Repeated(of) => of.resampled(parameters, experiment),
        }
    }
}

/// Reads the hiccups from a result. Its numbers of queries and executions must match the given
/// ones.
fn found(path: &Path, [queries, executions]: [usize; 2]) -> Result<SampleSummary, Error> {
    let refused = |why: String| Error::Samples { name: path.display().to_string(), why };
    let text = read_text(path).map_err(ResolveError::from)?;
    let found: Found = serde_json::from_str(&text).map_err(|error| {
        refused(format!("it is not a result of curtail jitter --out: {error}; measure again"))
    })?;
    if [found.queries, found.executions] != [queries, executions] {
        return Err(refused(format!(
            "it has {} queries and {} executions, but {P} and {J} have {queries} and \
             {executions}; they come from different runs, so measure again",
            found.queries, found.executions
        )));
    }
    let Seen { probability, probability_ci95, duration_ns, duration_ci95 } = found.seen;
    let unit = |ns: f64| ns / UNIT_NS as f64;
    Ok(SampleSummary {
        count: executions,
        with_hiccup: (probability * executions as f64).round() as usize,
        probability,
        probability_ci95,
        duration: duration_ns.map_or(0.0, unit),
        duration_ci95: duration_ci95.map(|ends| ends.map(unit)),
        of_jitter: true,
        assumes: "the variation of each copy is independent",
    })
}

impl Repeated {
    /// Returns the experiment whose service times and jitter come from these times.
    pub fn experiment(self, parameters: &Parameters) -> Result<Experiment, Error> {
        let Self { name, p_ns, j_ns, have_units, .. } = self;
        let count = j_ns.len();
        let jitter = Distribution::from_samples(j_ns, have_units);
        let jitter = jitter.filter(|made| made.mean() > 0.0);
        with_times(parameters, Measured { name, ns: p_ns, have_units }, count, || Ok(jitter))
    }

    /// See [`Times::resampled`]. Queries are drawn one by one, and executions in blocks.
    fn resampled(&self, parameters: &Parameters, experiment: &Experiment) -> Vec<Experiment> {
        resampled_by(experiment, |rng| {
            let p_ns = blocks(&self.p_ns, 1, rng);
            let j_ns = blocks(&self.j_ns, self.j_ns.len().div_ceil(BLOCKS), rng);
            Self { p_ns, j_ns, ..self.clone() }.experiment(parameters).ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::write;

    use super::*;

    fn folder(found: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a scratch folder");
        write(folder.path().join(P), "# P of each query\n40us\n50us\n").expect("written");
        write(folder.path().join(J), "10us\n".repeat(200)).expect("written");
        if !found.is_empty() {
            write(folder.path().join(FOUND), found).expect("written");
        }
        folder
    }

    fn summary(found: &str) -> Result<Option<SampleSummary>, String> {
        let times = Times::read(folder(found).path()).map_err(|error| error.to_string())?;
        let made = times.experiment(&Parameters::default()).map_err(|error| error.to_string())?;
        Ok(made.1)
    }

    #[test]
    fn a_folder_comes_with_the_hiccups_that_were_found_in_it() {
        let seen = r#""seen": {"probability": 0.02, "probability_ci95": [0.01, 0.03],
            "duration_ns": 4e7, "duration_ci95": [3e7, 5e7], "bimodal": true}"#;
        let of = |executions| format!("{{\"queries\": 2, \"executions\": {executions}, {seen}}}");
        let found = summary(&of(200)).expect("a folder").expect("its result");
        assert_eq!((found.count, found.with_hiccup), (200, 4));
        assert_eq!((found.probability_ci95, found.duration), ([0.01, 0.03], 40.0));
        assert_eq!(found.duration_ci95, Some([30.0, 50.0]));
        assert_eq!(summary(""), Ok(None));
        let other = summary(&of(201)).expect_err("of another run");
        assert!(other.contains("2 queries and 201 executions") && other.contains("measure again"));
        let load = summary("{\"plan\": {}}").expect_err("of another verb");
        assert!(load.contains("result.json: it is not a result of curtail jitter --out"), "{load}");
    }

    #[test]
    fn executions_are_drawn_with_their_neighbors() {
        let of: Vec<f64> = (0..100).map(f64::from).collect();
        let mut rng = curtail_dist::seed::rng(1);
        let drawn = blocks(&of, 10, &mut rng);
        assert_eq!(drawn.len(), 100);
        let is_next = |pair: &&[f64]| pair[1] == (pair[0] + 1.0) % 100.0;
        assert!(drawn.windows(2).filter(is_next).count() >= 90, "{drawn:?}");
        assert_ne!(drawn, blocks(&of, 10, &mut rng));
        assert_eq!(blocks(&of, 7, &mut rng).len(), 100);
    }
}
