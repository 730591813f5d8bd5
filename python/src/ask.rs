//! Validates the arguments that Python passes. Error messages name the value and the fix.

use curtail_queueing::fit::By;
use curtail_sim::sweep::{Axis, Range, Value};
use curtail_sim::{Candidate, Parameters, UNIT_NS, check_percentiles};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::{Map, Value as Json};

/// Returns a `ValueError` for bad input.
pub(crate) fn bad(why: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(why.to_string())
}

/// Serializes a document for Python.
pub(crate) fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value)
        .map_err(|error| PyRuntimeError::new_err(format!("cannot write JSON: {error}")))
}

/// Parses a JSON object that sets some parameters, which have the names of their command-line
/// flags. All other parameters keep their defaults.
pub(crate) fn parameters(text: &str) -> PyResult<Parameters> {
    let given: Map<String, Json> = serde_json::from_str(text).map_err(bad)?;
    let mut parameters = Parameters::default();
    for (name, value) in given {
        let Json::Object(mut all) = serde_json::to_value(&parameters).map_err(bad)? else {
            return Err(bad("parameters must be an object"));
        };
        let form = match all.get(&name) {
            None => {
                let names = all.keys().cloned().collect::<Vec<_>>().join(", ");
                return Err(bad(format_args!("unknown parameter {name}; use one of {names}")));
            }
            Some(Json::Number(number)) if number.is_f64() => "a number, such as 0.3",
            Some(Json::Number(_)) => "a whole number, such as 50",
            Some(Json::Array(_)) => "a list of numbers, such as [1, 0.5]",
            _ => "a string, such as \"exp:1\"",
        };
        let form = match &name[..] {
            "utilization-of" => "\"mean\" or \"total\"",
            "change" => "a list of strings, such as [\"jitter=none\"]",
            "tune" => "a list of strings, such as [\"burst=3\"]",
            "queue-series" => "True or False",
            "servers" | "clients" | "score-exponent" => "a whole number, such as 50",
            "change-at" | "window" => "a whole number, such as 1000",
            "hint-error" | "repair" => "a number, such as 0.5",
            "jitter-of" => "\"copy\" or \"query\"",
            _ => form,
        };
        let why = format!("{name} is {value}; give it {form}");
        all.insert(name, value);
        parameters = serde_json::from_value(Json::Object(all)).map_err(|_| bad(why))?;
    }
    Ok(parameters)
}

/// Parses the axes of a grid from a JSON list of pairs. Each pair consists of a key and a list, a
/// text or a range of values.
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
                    bad(format_args!("grid {key}: {value} must be a number or a string"))
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
        other => Err(bad(format_args!("grid {key} is {other}; give a list, such as [{other}]"))),
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

/// Parses policies by name. At least one is required.
pub(crate) fn candidates(names: &[String]) -> PyResult<Vec<Candidate>> {
    if names.is_empty() {
        return Err(bad("the policy is missing; name one, such as policy=\"psq\""));
    }
    Candidate::parse_all(names, UNIT_NS).map_err(bad)
}

/// Checks percentiles.
pub(crate) fn percentiles(percentiles: Vec<f64>) -> PyResult<Vec<f64>> {
    check_percentiles(&percentiles).map_err(bad)?;
    Ok(percentiles)
}

/// Validates the number of threads. `None` means one thread per core.
pub(crate) fn threads(threads: Option<i64>) -> PyResult<usize> {
    match threads {
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
        Some(threads @ 1..=1024) => Ok(threads as usize),
        Some(other) => Err(bad(format_args!("threads is {other}; give it 1 to 1024"))),
    }
}

/// Parses the name of the criterion by which fits are ranked.
pub(crate) fn criterion(by: &str) -> PyResult<By> {
    match by {
        "aic" => Ok(By::Aic),
        "ks" => Ok(By::Ks),
        other => Err(bad(format_args!("by is {other:?}; give it \"aic\" or \"ks\""))),
    }
}
