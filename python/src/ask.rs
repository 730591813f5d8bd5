//! What Python asks, checked. Messages name the value and the fix.

use curtail_queueing::fit::By;
use curtail_sim::sweep::{Axis, Range, Value};
use curtail_sim::{Candidate, Parameters, UNIT_NS, check_percentiles};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::{Map, Value as Json};

/// Bad input.
pub(crate) fn bad(why: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(why.to_string())
}

/// A document for Python.
pub(crate) fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value)
        .map_err(|error| PyRuntimeError::new_err(format!("cannot write JSON: {error}")))
}

/// Parameters of a JSON object that has some of them, by the names of their flags.
pub(crate) fn parameters(text: &str) -> PyResult<Parameters> {
    let given: Map<String, Json> = serde_json::from_str(text).map_err(bad)?;
    let mut parameters = Parameters::default();
    for (name, value) in given {
        let Json::Object(mut all) = serde_json::to_value(&parameters).map_err(bad)? else {
            return Err(bad("parameters are an object"));
        };
        let form = match all.get(&name) {
            None => {
                let names = all.keys().cloned().collect::<Vec<_>>().join(", ");
                return Err(bad(format_args!("no parameter is called {name}; there are {names}")));
            }
            Some(Json::Number(number)) if number.is_f64() => "a number, as 0.3",
            Some(Json::Number(_)) => "a whole number, as 50",
            Some(Json::Array(_)) => "a list of numbers, as [1, 0.5]",
            _ => "a text, as \"exp:1\"",
        };
        let form = match &name[..] {
            "utilization-of" => "\"mean\" or \"total\"",
            "change" => "a list of texts, as [\"jitter=none\"]",
            "tune" => "a list of texts, as [\"burst=3\"]",
            "queue-series" => "True or False",
            "servers" | "clients" | "score-exponent" => "a whole number, as 50",
            "change-at" | "window" => "a whole number, as 1000",
            "hint-error" | "repair" => "a number, as 0.5",
            "jitter-of" => "\"copy\" or \"query\"",
            _ => form,
        };
        let why = format!("{name} is {value}; give it {form}");
        all.insert(name, value);
        parameters = serde_json::from_value(Json::Object(all)).map_err(|_| bad(why))?;
    }
    Ok(parameters)
}

/// Axes of a JSON list of pairs: a key, and a list, a text or a range.
pub(crate) fn axes(text: &str) -> PyResult<Vec<Axis>> {
    let given: Vec<(String, Json)> = serde_json::from_str(text).map_err(bad)?;
    given.into_iter().map(|(key, values)| axis(key, values)).collect()
}

fn axis(key: String, values: Json) -> PyResult<Axis> {
    match values {
        Json::String(text) => Axis::parse(&key, &text).map_err(bad),
        Json::Array(values) => {
            let values = values.iter().map(|value| {
                scalar(value).ok_or_else(|| {
                    bad(format_args!("grid {key}: {value} is neither a number nor a text"))
                })
            });
            let values = values.collect::<PyResult<_>>()?;
            Axis::new(key, values).map_err(bad)
        }
        range @ Json::Object(_) => {
            let range: Range = serde_json::from_value(range).map_err(|error| {
                bad(format_args!(
                    "grid {key}: {error}; write {{\"from\": 0.1, \"to\": 0.9, \"step\": 0.1}} or \
                     {{\"from\": 1e-5, \"to\": 0.1, \"count\": 9, \"scale\": \"log\"}}"
                ))
            })?;
            Axis::range(key, &range).map_err(bad)
        }
        other => Err(bad(format_args!("grid {key} is {other}; give a list, as [{other}]"))),
    }
}

fn scalar(value: &Json) -> Option<Value> {
    match value {
        Json::String(text) => Some(Value::Text(text.clone())),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Some(Value::Whole(whole)),
            None => number.as_f64().map(Value::number),
        },
        _ => None,
    }
}

/// Policies.
pub(crate) fn candidates(names: &[String]) -> PyResult<Vec<Candidate>> {
    if names.is_empty() {
        return Err(bad("there is no policy; name one, as policy=\"psq\""));
    }
    Candidate::parse_all(names, UNIT_NS).map_err(bad)
}

/// Percentiles.
pub(crate) fn percentiles(percentiles: Vec<f64>) -> PyResult<Vec<f64>> {
    check_percentiles(&percentiles).map_err(bad)?;
    Ok(percentiles)
}

/// Threads: all cores where it is left open.
pub(crate) fn threads(threads: Option<i64>) -> PyResult<usize> {
    match threads {
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
        Some(threads @ 1..=1024) => Ok(threads as usize),
        Some(other) => Err(bad(format_args!("threads is {other}; give it 1 to 1024"))),
    }
}

/// What fits are ranked by.
pub(crate) fn criterion(by: &str) -> PyResult<By> {
    match by {
        "aic" => Ok(By::Aic),
        "ks" => Ok(By::Ks),
        other => Err(bad(format_args!("by is {other:?}; give it \"aic\" or \"ks\""))),
    }
}
