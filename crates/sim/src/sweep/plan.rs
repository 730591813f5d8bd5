//! The plan of a sweep. A copy of the plan is stored next to the results, so that they are never
//! mixed with the results of another plan.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use curtail_report::columns::Schema;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use super::axis::Axis;
use super::columns;
use super::error::Error;
use super::grid::Grid;
use crate::candidate::Candidate;
use crate::compare::{self, compare, total};
use crate::outcome::Outcome;
use crate::parallel::{self, Plan as How};
use crate::parameters::Parameters;

/// A sweep: a grid, and the policies to compare at each of its points.
#[derive(Debug)]
pub struct Plan {
    grid: Grid,
    candidates: Vec<Candidate>,
    policies: Vec<String>,
    percentiles: Vec<f64>,
    json: String,
}

#[derive(serde::Serialize)]
struct Document<'a> {
    version: &'a str,
    points: usize,
    policies: &'a [String],
    percentiles: &'a [f64],
    grid: &'a [Axis],
    parameters: &'a Parameters,
}

#[derive(serde::Serialize)]
struct Line<'a> {
    point: usize,
    grid: Values<'a>,
    outcomes: &'a [Outcome],
}

impl Plan {
    /// Creates a plan. The percentiles must pass [`crate::check_percentiles`].
    pub fn new(
        parameters: &Parameters,
        axes: Vec<Axis>,
        candidates: Vec<Candidate>,
        percentiles: Vec<f64>,
    ) -> Result<Self, Error> {
        let grid = Grid::new(parameters, axes)?;
        let policies: Vec<String> = candidates.iter().map(ToString::to_string).collect();
        let document = Document {
            version: env!("CARGO_PKG_VERSION"),
            points: grid.points(),
            policies: &policies,
            percentiles: &percentiles,
            grid: grid.axes(),
            parameters,
        };
        let json = serde_json::to_string_pretty(&document).expect("names, numbers and texts");
        columns::check_names(grid.axes(), &percentiles)?;
        Ok(Self { grid, candidates, policies, percentiles, json })
    }

    /// Returns the grid of experiments.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the names of the policies.
    pub fn policies(&self) -> &[String] {
        &self.policies
    }

    /// Returns the percentiles to report.
    pub fn percentiles(&self) -> &[f64] {
        &self.percentiles
    }

    /// Returns the columns of the results: first those of the grid, then those of outcomes.
    pub fn schema(&self) -> Schema {
        columns::schema(self.grid.axes(), &self.percentiles)
    }

    /// Returns the plan as it is stored.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Checks every point before anything runs. Returns the number of requests that each point will
    /// count, and the simulation cost of each point in queries.
    pub fn check(&self) -> Result<Vec<(u64, f64)>, Error> {
        // Whether a policy fits the servers does not depend on the load. Building a policy takes
        // longer than everything else here.
        let mut fits = BTreeSet::new();
        let mut lengths = Vec::with_capacity(self.grid.points());
        for point in 0..self.grid.points() {
            let experiment = self.grid.experiment(point)?;
            if fits.insert((experiment.world.servers(), experiment.slots, experiment.queue)) {
                compare::check(&experiment, &self.candidates)
                    .map_err(|error| self.grid.wrong(point, &error))?;
            }
            let requests = total(&experiment, &self.candidates);
            lengths.push((requests, requests as f64 * experiment.events_per_request()));
        }
        Ok(lengths)
    }

    /// Runs some points and passes the line of each to `done` as soon as it is finished. `done`
    /// returns whether to continue. The order of the lines depends on the number of threads, but
    /// their contents do not, except for the elapsed time of each run. Returns false if it was
    /// stopped.
    pub fn run(
        &self,
        points: &[usize],
        how: &How<'_>,
        done: impl FnMut(String) -> bool + Send,
    ) -> Result<bool, Error> {
        let how = How { percentiles: &self.percentiles, ..*how };
        let Some(&first) = points.first() else { return Ok(true) };
        // If a point has fewer runs than there are threads, several points run concurrently, so
        // that no thread is idle.
        let runs = self.candidates.len() * self.grid.experiment(first)?.replications as usize;
        let abreast = how.threads.div_ceil(runs.max(1));
        let (done, failure) = (Mutex::new(done), Mutex::new(None));
        let one = |job: usize| {
            let point = points[job];
            let how = How { threads: how.threads.div_ceil(abreast), ..how };
            let outcomes = self.grid.experiment(point).and_then(|experiment| {
                compare(&experiment, &self.candidates, &how)
                    .map_err(|error| self.grid.wrong(point, &error))
            });
            let goes_on = match outcomes {
                Ok(None) => false,
                // Finished points are kept, even if the stop flag has been set.
                Ok(Some(outcomes)) => {
                    let line = Line { point, grid: self.values(point), outcomes: &outcomes };
                    let line = serde_json::to_string(&line).expect("names, numbers and texts");
                    done.lock().expect("no panic")(line)
                }
                Err(error) => {
                    failure.lock().expect("no panic").get_or_insert(error);
                    false
                }
            };
            if !goes_on {
                // Stop the points that run concurrently with this one.
                how.stop.store(true, Ordering::Relaxed);
            }
            goes_on.then_some(())
        };
        let all = parallel::each(points.len(), abreast, one);
        match failure.into_inner().expect("no panic") {
            Some(error) => Err(error),
            None => Ok(all.is_some()),
        }
    }

    pub(super) fn values(&self, point: usize) -> Values<'_> {
        Values { grid: &self.grid, point }
    }

    pub(super) fn is_one(text: &str) -> bool {
        let parts = ["version", "policies", "percentiles", "parameters"];
        serde_json::from_str::<Json>(text)
            .is_ok_and(|plan| parts.iter().all(|part| plan.get(part).is_some()))
    }

    /// Describes how another plan differs. Returns `None` if the plans are the same.
    pub(super) fn difference(&self, other: &str) -> Option<String> {
        if !Self::is_one(other) {
            return Some("its sweep.json is not the plan of a sweep".to_owned());
        }
        let there: Json = serde_json::from_str(other).unwrap_or_default();
        let here: Json = serde_json::from_str(&self.json).unwrap_or_default();
        let (theirs, ours) = (parts(&there), parts(&here));
        let find = |parts: &[(String, Json)], key: &str| {
            parts.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
        };
        let more = ours.iter().filter(|(key, _)| find(&theirs, key).is_none());
        let keys = theirs.iter().chain(more).map(|(key, _)| key);
        let differences = keys.filter_map(|key| {
            let [there, here] = [&theirs, &ours].map(|parts| find(parts, key).unwrap_or_default());
            (there != here)
                .then(|| format!("{key} is {} there and {} here", brief(&there), brief(&here)))
        });
        let differences: Vec<String> = differences.collect();
        if differences.is_empty() && theirs != ours {
            return Some("the keys of the grid have another order".to_owned());
        }
        (!differences.is_empty()).then(|| differences.join("; "))
    }
}

fn parts(plan: &Json) -> Vec<(String, Json)> {
    let all =
        ["version", "policies", "percentiles"].map(|part| (part.to_owned(), plan[part].clone()));
    let axes = plan["grid"].as_array().into_iter().flatten().map(|axis| {
        let key = axis["key"].as_str().unwrap_or_default();
        (format!("grid {key}"), axis["values"].clone())
    });
    let parameters = plan["parameters"].as_object().into_iter().flatten();
    let parameters = parameters.map(|(key, value)| (key.clone(), value.clone()));
    all.into_iter().chain(axes).chain(parameters).collect()
}

fn brief(value: &Json) -> String {
    const MOST: usize = 60;
    let text = if value.is_null() { "nothing".to_owned() } else { value.to_string() };
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[derive(Debug)]
pub(super) struct Values<'a> {
    grid: &'a Grid,
    point: usize,
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.grid.values(self.point))
    }
}
