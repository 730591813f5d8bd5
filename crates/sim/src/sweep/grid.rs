//! The points of a grid: every combination of the values of its axes.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

use super::axis::{Axis, Value};
use super::error::{Error, MOST_POINTS};
use crate::error::shown;
use crate::experiment::Experiment;
use crate::parameters::{Parameters, split_changes};

/// A grid of experiments. Points are numbered from 0, and the last axis varies fastest.
#[derive(Clone, Debug)]
pub struct Grid {
    axes: Vec<Axis>,
    /// The fixed parameters, by name.
    template: Map<String, Json>,
    points: usize,
}

impl Grid {
    /// Varies some of the parameters. The texts of parameters may contain placeholders `{key}`.
    pub fn new(parameters: &Parameters, axes: Vec<Axis>) -> Result<Self, Error> {
        if axes.is_empty() {
            return Err(Error::Empty);
        }
        let mut keys = BTreeSet::new();
        if let Some(axis) = axes.iter().find(|axis| !keys.insert(parameter(&axis.key))) {
            return Err(Error::Twice { key: axis.key.clone() });
        }
        let Ok(Json::Object(template)) = serde_json::to_value(parameters) else {
            unreachable!("parameters are a map of numbers and texts")
        };
        let names = template.keys().cloned().collect::<Vec<_>>().join(", ");
        let mut texts = Vec::new();
        for axis in &axes {
            let name = parameter(&axis.key);
            let Some(replaced) = template.get(name) else { continue };
            for value in &axis.values {
                texts.push((name.to_owned(), fit(&axis.key, value, replaced)?));
            }
        }
        let varied = |name: &str| axes.iter().any(|axis| axis.key == name);
        let replaces = |name: &str| axes.iter().any(|axis| parameter(&axis.key) == name);
        let fixed = template.iter().filter(|(name, _)| !replaces(name));
        texts.extend(fixed.map(|(name, value)| (name.clone(), value.clone())));
        let mut used = BTreeSet::new();
        for (name, text) in &texts {
            for key in strings(text).flat_map(placeholders) {
                if !varied(key) {
                    return Err(Error::Unfilled { name: name.clone(), key: key.to_owned() });
                }
                used.insert(key);
            }
        }
        let idle = |axis: &&Axis| {
            !template.contains_key(parameter(&axis.key)) && !used.contains(&axis.key[..])
        };
        if let Some(axis) = axes.iter().find(idle) {
            return Err(Error::Unused { key: axis.key.clone(), parameters: names });
        }
        let count = axes.iter().map(|axis| axis.values.len() as f64).product::<f64>();
        if count > MOST_POINTS as f64 {
            return Err(Error::TooMany { points: format!("{count}") });
        }
        Ok(Self { axes, template, points: count as usize })
    }

    /// Returns the number of points.
    pub fn points(&self) -> usize {
        self.points
    }

    /// Returns the axes.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Returns the indexes of a point's values, one per axis.
    pub fn indexes(&self, point: usize) -> Vec<usize> {
        let mut rest = point;
        let mut indexes: Vec<usize> = self
            .axes
            .iter()
            .rev()
            .map(|axis| {
                let index = rest % axis.values.len();
                rest /= axis.values.len();
                index
            })
            .collect();
        indexes.reverse();
        indexes
    }

    /// Returns the values of a point, by axis.
    pub fn values(&self, point: usize) -> impl Iterator<Item = (&str, &Value)> {
        let axes = self.axes.iter().zip(self.indexes(point));
        axes.map(|(axis, index)| (&axis.key[..], &axis.values[index]))
    }

    /// Returns the experiment of a point. Reads the files to which the experiment refers.
    pub fn experiment(&self, point: usize) -> Result<Experiment, Error> {
        let values: Vec<_> = self.values(point).collect();
        let mut map = self.template.clone();
        for &(key, value) in &values {
            if let Some(slot) = map.get_mut(parameter(key)) {
                *slot = fit(key, value, slot)?;
            }
        }
        for text in map.values_mut() {
            match text {
                Json::String(text) => *text = filled(text, &values),
                Json::Array(list) => {
                    for item in list {
                        if let Json::String(text) = item {
                            *text = filled(text, &values);
                        }
                    }
                }
                _ => {}
            }
        }
        let parameters = serde_json::from_value::<Parameters>(Json::Object(map));
        let parameters = parameters.map_err(|error| self.wrong(point, &error))?;
        parameters.experiment().map_err(|error| self.wrong(point, &error))
    }

    pub(super) fn wrong(&self, point: usize, why: &dyn std::fmt::Display) -> Error {
        let text = |value: &Value| match value {
            Value::Number(number) => shown(*number),
            other => other.to_string(),
        };
        let values = self.values(point).map(|(key, value)| format!("{key} = {}", text(value)));
        Error::Point { values: values.collect::<Vec<_>>().join(", "), why: why.to_string() }
    }
}

/// Returns the name of the parameter that a key varies. The names of two flags differ from those of
/// their parameters.
#[must_use]
pub fn parameter(key: &str) -> &str {
    match key {
        "service-time" => "service",
        "warmup" => "warm-up",
        other => other,
    }
}

/// The optional parameters that are whole numbers.
const OPTIONAL_WHOLE: [&str; 5] = ["change-at", "window", "servers", "clients", "score-exponent"];
/// The optional parameters that can be any number.
const OPTIONAL_NUMBER: [&str; 2] = ["hint-error", "repair"];

fn fit(key: &str, value: &Value, replaced: &Json) -> Result<Json, Error> {
    let misfit = |wanted| Error::Misfit { key: key.to_owned(), value: value.to_string(), wanted };
    match (replaced, value) {
        (Json::Null, _) if OPTIONAL_WHOLE.contains(&key) => fit(key, value, &Json::from(0)),
        (Json::Null, _) if OPTIONAL_NUMBER.contains(&key) => fit(key, value, &Json::from(0.0)),
        (Json::Number(number), Value::Number(_)) if !number.is_f64() => {
            Err(misfit("whole numbers up to 18446744073709551615"))
        }
        (Json::Number(_), Value::Text(_)) => Err(misfit("numbers")),
        (Json::Number(_), Value::Whole(whole)) => Ok(Json::from(*whole)),
        (Json::Number(_), Value::Large(large)) => Ok(Json::from(*large)),
        (Json::Number(_), Value::Number(number)) => Ok(Json::from(*number)),
        (Json::Array(_), _) if key == "change" => Ok(Json::from(split_changes(&value.to_string()))),
        (Json::Array(_), _) if key == "tune" => Ok(Json::from(vec![value.to_string()])),
        (Json::Bool(_), _) => {
            value.to_string().parse::<bool>().map(Json::from).map_err(|_| misfit("true or false"))
        }
        (Json::Array(_), _) => {
            let text = value.to_string();
            let numbers = text.split(',').map(|part| part.trim().parse::<f64>());
            let numbers: Result<Vec<f64>, _> = numbers.collect();
            numbers.map(Json::from).map_err(|_| misfit("lists of numbers, as \"1,0.5\""))
        }
        _ => Ok(Json::from(value.to_string())),
    }
}

fn strings(value: &Json) -> impl Iterator<Item = &str> {
    let list = value.as_array().map_or(&[][..], Vec::as_slice);
    std::iter::once(value).chain(list).filter_map(Json::as_str)
}

fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

fn filled(text: &str, values: &[(&str, &Value)]) -> String {
    let mut parts = text.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let value = part.split_once('}').and_then(|(key, rest)| {
            let (_, value) = values.iter().find(|(name, _)| *name == key)?;
            Some(format!("{value}{rest}"))
        });
        filled += &value.unwrap_or_else(|| format!("{{{part}"));
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(parameters: &Parameters, axes: &[(&str, &str)]) -> Result<Grid, Error> {
        let axes = axes.iter().map(|(key, text)| Axis::parse(key, text));
        Grid::new(parameters, axes.collect::<Result<_, _>>()?)
    }

    fn with_jitter(jitter: &str) -> Parameters {
        Parameters { jitter: Some(jitter.to_owned()), ..Parameters::default() }
    }

    #[test]
    fn points_are_all_combinations_in_order() {
        let axes = [("shards", "1,2"), ("p", "0.1,0.2,0.5")];
        let grid = grid(&with_jitter("bimodal:{p}:15"), &axes).expect("a grid");
        assert_eq!(grid.points(), 6);
        let all: Vec<_> = (0..6).map(|point| grid.experiment(point).expect("valid")).collect();
        let shards: Vec<u32> = all.iter().map(|one| one.world.shards()).collect();
        assert_eq!(shards, [1, 1, 1, 2, 2, 2]);
        let mean = |point: usize| all[point].jitter.as_ref().expect("jitter").mean() / 15e6;
        assert!((mean(1) - 0.2).abs() < 1e-9 && (mean(3) - 0.1).abs() < 1e-9);
    }

    #[test]
    fn flag_names_are_aliases_of_parameters() {
        let grid = |axes| grid(&Parameters::default(), axes);
        let made = grid(&[("service-time", "exp:1,exp:3")]).expect("a grid");
        let mean = |point| made.experiment(point).expect("valid").service.mean() / 1e6;
        assert!((mean(1) - 3.0 * mean(0)).abs() < 1e-9);
        assert_eq!(made.axes()[0].key(), "service-time", "the column is called as it was given");
        let twice = grid(&[("warmup", "0"), ("warm-up", "0.5")]).expect_err("one parameter");
        assert!(matches!(twice, Error::Twice { .. }), "{twice}");
    }

    #[test]
    fn every_parameter_can_be_varied() {
        let default = Parameters::default();
        for axis in [
            ("utilization", "1,0.5"),
            ("warm-up", "0,0.5"),
            ("seed", "1,18446744073709551615"),
            ("service", "exp:1,det:{utilization}"),
            ("service-time", "exp:1,det:{utilization}"),
            ("warmup", "0,0.5"),
            ("network", "det:0.1,det:0.2"),
            ("speeds", "1"),
            ("cancel-cost", "1,2"),
            ("utilization-of", "mean,total"),
            ("jitter-of", "copy,query"),
            ("change", "jitter=none,jitter=exp:{utilization},service=det:2"),
            ("window", "1000,50000"),
            ("hint-error", "0,0.5"),
        ] {
            let axes = [axis, ("replicas", "1"), ("utilization", "0.5")];
            let axes = if axis.0 == "utilization" { &axes[..2] } else { &axes[..] };
            let grid = grid(&default, axes).unwrap_or_else(|error| panic!("{axis:?}: {error}"));
            for point in 0..grid.points() {
                grid.experiment(point).unwrap_or_else(|error| panic!("{axis:?}: {error}"));
            }
        }
    }

    #[test]
    fn changes_hold_placeholders_and_are_lists() {
        let change = vec!["jitter=bimodal:{p}:15".to_owned()];
        let parameters = Parameters { change, ..Parameters::default() };
        let varied = grid(&parameters, &[("p", "0.1,0.2"), ("change-at", "7")]).expect("a grid");
        let world = |grid: &Grid, point| grid.experiment(point).expect("valid").world;
        let second = world(&varied, 1);
        assert_eq!(second.change_at(), Some(7));
        assert_eq!(second.change_texts(), ["jitter=bimodal:0.2:15"]);
        let value = Value::Text("speeds=1,{u},service=det:{u}".to_owned());
        let axes = vec![Axis::new("change", vec![value]), Axis::parse("u", "0.5")];
        let axes = axes.into_iter().collect::<Result<_, _>>().expect("axes");
        let varied = Grid::new(&Parameters::default(), axes).expect("a grid");
        assert_eq!(world(&varied, 0).change_texts(), ["speeds=1,0.5", "service=det:0.5"]);
    }

    #[test]
    fn grid_errors_name_the_problem() {
        let jitter = with_jitter("bimodal:{p}:15");
        let plain = Parameters::default();
        for (parameters, axes, words) in [
            (&plain, &[][..], "the grid is empty"),
            (&plain, &[("utilizaton", "1")], "grid utilizaton: no parameter"),
            (&jitter, &[("shards", "1")], "jitter contains {p}"),
            (&plain, &[("shards", "1.5")], "grid shards: 1.5 is not valid; use whole numbers"),
            (
                &plain,
                &[("seed", "18446744073709551616")],
                "whole numbers up to 18446744073709551615",
            ),
            (&plain, &[("window", "wide")], "wide is not valid; use numbers"),
            (&plain, &[("window", "0.5")], "0.5 is not valid; use whole numbers"),
            (&plain, &[("hint-error", "large")], "large is not valid; use numbers"),
            (&plain, &[("change", "jitter=exp:{q}")], "change contains {q}"),
            (&plain, &[("utilization", "much")], "much is not valid; use numbers"),
            (&plain, &[("jitter", "bimodal:{q}:1")], "jitter contains {q}"),
            (&plain, &[("seed", "0..999:1"), ("shards", "1..2000:1")], "2000000 points"),
        ] {
            let error = grid(parameters, axes).expect_err("wrong").to_string();
            assert!(error.contains(words), "{axes:?}: {error}");
        }
        let huge = [("utilization", "1e300")];
        let error =
            grid(&plain, &huge).expect("a grid").experiment(0).expect_err("too much").to_string();
        assert!(error.starts_with("at utilization = 1e300: utilization is 1e300"), "{error}");
        let axes = [("p", "0.5,2"), ("shards", "3,4")];
        let grid = grid(&jitter, &axes).expect("its points are not looked at");
        let error = grid.experiment(3).expect_err("no probability").to_string();
        assert!(error.starts_with("at p = 2, shards = 4: jitter"), "{error}");
    }
}
