//! Errors in experiments. Every message contains the value and the fix.

use curtail_dist::arrivals::ArrivalsError;
use curtail_dist::{ParseError, ResolveError};

/// The reason why an experiment cannot run.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{name} is {value}; use {allowed}")]
    OutOfRange { name: &'static str, value: String, allowed: String },
    #[error("{name} is {value}; use {allowed}, or fewer requests: {LONGEST}")]
    TooLong { name: &'static str, value: String, allowed: String },
    #[error("{name}: {why}")]
    Misplaced { name: &'static str, why: String },
    #[error("{name}: {source}")]
    Distribution { name: &'static str, source: ParseError },
    #[error("{name}: {source}")]
    Unusable { name: &'static str, source: ResolveError },
    #[error("{name} is {text}, whose mean is {}; {}", shown(*.mean), finite_mean(*.mean))]
    NoMean { name: &'static str, text: String, mean: f64 },
    #[error("{with} has units and {without} has none; give a unit to every time or to none")]
    MixedUnits { with: &'static str, without: &'static str },
    #[error(transparent)]
    Arrivals(#[from] ArrivalsError),
    #[error("{0}")]
    Policy(String),
    #[error("{why}")]
    UnknownPolicy { name: String, why: String },
    #[error("policy {name} is given twice; remove one")]
    PolicyTwice { name: String },
    #[error("percentiles {}: {why}", shown(*.percentile))]
    Percentile { percentile: f64, why: String },
    #[error(transparent)]
    Times(#[from] ResolveError),
    #[error("{name}: {why}")]
    Samples { name: String, why: String },
    #[error("{policy}: {why}")]
    Unfit { policy: String, why: String },
    #[error("change {text:?}: {why}")]
    Change { text: String, why: String },
    #[error("{name} is {text:?}; write {form}{}", because(.why))]
    Disturbance { name: &'static str, text: String, form: &'static str, why: String },
}

/// Returns the error for a value that is not allowed.
pub(crate) fn wrong(
    name: &'static str,
    value: impl Into<String>,
    allowed: impl Into<String>,
) -> Error {
    Error::OutOfRange { name, value: value.into(), allowed: allowed.into() }
}

/// Returns the error for a parameter that does not fit the others.
pub(crate) fn misplaced(name: &'static str, why: impl Into<String>) -> Error {
    Error::Misplaced { name, why: why.into() }
}

/// The maximum length of a run, as error messages state it.
pub const LONGEST: &str = "a run is at most 146 years long";

/// Explains how to obtain a mean that is above zero and finite.
fn finite_mean(mean: f64) -> &'static str {
    if mean > 0.0 { "add a bound, like pareto:ALPHA:MIN:MAX" } else { "use times above zero" }
}

/// Formats a number for a message: `0.3`, but `1e300` for very large or small numbers.
pub fn shown(number: f64) -> String {
    match number.abs() {
        1e-6..1e15 | 0.0 => number.to_string(),
        _ => format!("{number:e}"),
    }
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(" ({why})") }
}
