//! What a sweep runs. It lies beside the results, so that they are never mixed with others.

use curtail_sim::sweep::{Axis, Grid, Value};
use curtail_sim::{Parameters, name};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value as Json;

use crate::exit::Stop;
use crate::sim::args::Written;

/// A sweep.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) grid: &'a Grid,
    pub(super) policies: Vec<String>,
    pub(super) percentiles: &'a [f64],
    /// As it is kept.
    pub(super) json: String,
}

/// The document `sweep.json`.
#[derive(serde::Serialize)]
struct Document<'a> {
    version: &'a str,
    points: usize,
    policies: &'a [String],
    percentiles: &'a [f64],
    grid: &'a [Axis],
    parameters: &'a Parameters,
}

impl<'a> Plan<'a> {
    pub(super) fn new(written: &'a Written, grid: &'a Grid) -> Result<Self, Stop> {
        let policies: Vec<String> = written.candidates.iter().map(ToString::to_string).collect();
        let percentiles = &written.percentiles;
        let mut names: Vec<String> = percentiles.iter().map(|&p| name(p)).collect();
        names.sort();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let why = format!("--percentiles: two of them are called {}; drop one", pair[0]);
            return Err(Stop::BadInput(why));
        }
        let json = crate::json(&Document {
            version: env!("CARGO_PKG_VERSION"),
            points: grid.points(),
            policies: &policies,
            percentiles,
            grid: grid.axes(),
            parameters: &written.parameters,
        })?;
        let plan = Self { grid, policies, percentiles, json };
        super::table::check_names(&plan)?;
        Ok(plan)
    }

    /// The values of a point, as JSON.
    pub(super) fn values(&self, point: usize) -> Values<'_> {
        Values { grid: self.grid, point }
    }

    /// How another plan differs, in words; none where it does not.
    pub(super) fn difference(&self, other: &str) -> Option<String> {
        let Ok(there) = serde_json::from_str::<Json>(other) else {
            return Some("its sweep.json cannot be read".to_owned());
        };
        let here: Json = serde_json::from_str(&self.json).unwrap_or_default();
        let mut told = Vec::new();
        for part in ["version", "policies", "percentiles"] {
            tell(&mut told, part, &there[part], &here[part]);
        }
        let (theirs, ours) = (axes(&there), axes(&here));
        for key in union(&theirs, &ours) {
            let of = |axes: &[(String, Json)]| {
                axes.iter().find(|(name, _)| *name == key).map(|(_, values)| values.clone())
            };
            let part = format!("grid {key}");
            let (there, here) = (of(&theirs), of(&ours));
            tell(&mut told, &part, &there.unwrap_or_default(), &here.unwrap_or_default());
        }
        if told.is_empty() && theirs != ours {
            told.push("the keys of the grid have another order".to_owned());
        }
        let none = serde_json::Map::new();
        let map = |plan: &'_ Json| plan["parameters"].as_object().unwrap_or(&none).clone();
        let (theirs, ours) = (map(&there), map(&here));
        let pairs = |map: &serde_json::Map<String, Json>| {
            map.iter().map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>()
        };
        for key in union(&pairs(&theirs), &pairs(&ours)) {
            tell(&mut told, &key, &there["parameters"][&key], &here["parameters"][&key]);
        }
        (!told.is_empty()).then(|| told.join("; "))
    }
}

/// Keys and values of a plan's grid.
fn axes(plan: &Json) -> Vec<(String, Json)> {
    let axes = plan["grid"].as_array().into_iter().flatten();
    axes.map(|axis| (axis["key"].as_str().unwrap_or_default().to_owned(), axis["values"].clone()))
        .collect()
}

fn union(some: &[(String, Json)], others: &[(String, Json)]) -> Vec<String> {
    let mut keys: Vec<String> = some.iter().map(|(key, _)| key.clone()).collect();
    keys.extend(
        others
            .iter()
            .map(|(key, _)| key.clone())
            .filter(|key| !some.iter().any(|(other, _)| other == key)),
    );
    keys
}

fn tell(told: &mut Vec<String>, part: &str, there: &Json, here: &Json) {
    if there != here {
        told.push(format!("{part} is {} there and {} here", brief(there), brief(here)));
    }
}

/// A value, cut where it would fill the screen.
fn brief(value: &Json) -> String {
    const MOST: usize = 60;
    let text = if value.is_null() { "nothing".to_owned() } else { value.to_string() };
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The values of a point, in the order of the grid.
#[derive(Debug)]
pub(super) struct Values<'a> {
    grid: &'a Grid,
    point: usize,
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.grid.values(self.point) {
            map.serialize_entry::<str, Value>(key, value)?;
        }
        map.end()
    }
}
