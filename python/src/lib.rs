//! The boundary between Python and the simulator. Python passes text and numbers, and receives
//! columns and JSON.
//!
//! The public interface, with its names, defaults and documentation, is written in Python, in
//! `curtail/`. No input causes a panic in this crate. The interpreter lock is released while a
//! simulation runs, and a signal stops the simulation.
#![forbid(unsafe_code)]

mod ask;
mod samples;
mod sweep;
mod table;
mod watch;

use curtail_sim::advise::{self as advice, Document, Question};
use curtail_sim::sweep::of_outcomes;
use curtail_sim::{PERCENTILES, compare, total};
use pyo3::prelude::*;

use ask::bad;
use samples::Given;
use table::Table;
use watch::watched;

/// Runs one experiment and returns its table, which consists of a schema and columns.
#[pyfunction]
fn simulate(
    py: Python<'_>,
    parameters: &str,
    policies: Vec<String>,
    percentiles: Vec<f64>,
    threads: Option<i64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Table> {
    let experiment = ask::parameters(parameters)?.experiment().map_err(bad)?;
    let candidates = ask::candidates(&policies)?;
    let percentiles = ask::percentiles(percentiles)?;
    let threads = ask::threads(threads)?;
    let requests = total(&experiment, &candidates);
    let outcomes = watched(py, progress, requests, |watch| {
        compare(&experiment, &candidates, &watch.plan(threads, &percentiles))
    })?;
    let outcomes = watch::completed(outcomes.map_err(bad)?)?;
    let table = of_outcomes(&outcomes, &percentiles);
    Ok(Table::new(&table.schema, &table.rows))
}

/// Evaluates whether hedging would help. Returns the JSON of `curtail advise`.
#[pyfunction]
fn advise(
    py: Python<'_>,
    parameters: &str,
    samples: Option<Given>,
    cancel: bool,
    threads: Option<i64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let parameters = ask::parameters(parameters)?;
    let threads = ask::threads(threads)?;
    let (experiment, resampled, samples) = match samples {
        None => {
            let experiment = parameters.experiment().map_err(bad)?;
            let resampled = advice::resampled(&experiment);
            (experiment, resampled, None)
        }
        Some(given) => {
            let times = given.times()?;
            let (experiment, summary) = times.experiment(&parameters).map_err(bad)?;
            let resampled = times.resampled(&parameters, &experiment);
            (experiment, resampled, summary)
        }
    };
    let (resampled, replicas_at) = (&resampled[..], &[][..]);
    let question =
        Question { experiment: &experiment, cancel, effort: 1.0, resampled, replicas_at };
    let answered = watched(py, progress, advice::total(&question), |watch| {
        advice::advise(&question, &watch.plan(threads, &PERCENTILES))
    })?;
    let advice = watch::completed(answered.map_err(bad)?)?;
    ask::json(&Document { advice, samples })
}

/// Fits distributions to samples. Returns the JSON of `curtail model fit`.
#[pyfunction]
fn fit(py: Python<'_>, samples: Given, by: &str) -> PyResult<String> {
    let by = ask::criterion(by)?;
    let report = watched(py, None, 0, |_| samples.report(by))?;
    ask::json(&report?)
}

/// The compiled module of the package.
#[pymodule]
mod _curtail {
    #[pymodule_export]
    use super::sweep::Sweep;
    #[pymodule_export]
    use super::{advise, fit, simulate};

    /// The version of curtail. Results from different versions are not mixed.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
