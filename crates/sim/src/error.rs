//! What can be wrong with an experiment. Every message names the value and the mend.

use curtail_dist::arrivals::ArrivalsError;
use curtail_dist::{ParseError, ResolveError};

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value is outside what its parameter allows.
    #[error("{name} is {value}; give it {allowed}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// The value as written.
        value: String,
        /// What it may be, in words.
        allowed: String,
    },
    /// Arrivals would take longer than the clock has room for.
    #[error("{name} is {value}; give it {allowed}, or fewer requests: {LONGEST}")]
    TooLong {
        /// The parameter that makes them long.
        name: &'static str,
        /// Its value, in words.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// A distribution is not one.
    #[error("{name}: {source}")]
    Distribution {
        /// The parameter.
        name: &'static str,
        /// Why.
        source: ParseError,
    },
    /// A distribution cannot be drawn from.
    #[error("{name}: {source}")]
    Unusable {
        /// The parameter.
        name: &'static str,
        /// Why.
        source: ResolveError,
    },
    /// A distribution has no mean above zero, or none at all.
    #[error("{name} is {text}, whose mean is {}; {}", shown(*.mean), finite_mean(*.mean))]
    NoMean {
        /// The parameter.
        name: &'static str,
        /// As written.
        text: String,
        /// Its mean, in the unit of the experiment.
        mean: f64,
    },
    /// Some times have units and some have none.
    #[error("{with} has units and {without} has none; give a unit to every time or to none")]
    MixedUnits {
        /// A parameter with units.
        with: &'static str,
        /// A parameter without.
        without: &'static str,
    },
    /// An arrival process is not one, or its file cannot be used.
    #[error(transparent)]
    Arrivals(#[from] ArrivalsError),
    /// There is no such policy.
    #[error("{0}")]
    Policy(String),
    /// Two policies are one.
    #[error("policy {name} is there twice; drop one")]
    PolicyTwice {
        /// As written.
        name: String,
    },
    /// A percentile is none, or cannot be told from another.
    #[error("percentiles {percentile}: {why}")]
    Percentile {
        /// As written.
        percentile: f64,
        /// What is wrong.
        why: String,
    },
    /// Measured service times say too little.
    #[error("{name}: {why}")]
    Samples {
        /// Where they are from.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A policy cannot run in this experiment.
    #[error("{policy}: {why}")]
    Unfit {
        /// The policy.
        policy: String,
        /// Why.
        why: String,
    },
    /// A change cannot be made.
    #[error("change {text:?}: {why}")]
    Change {
        /// As written.
        text: String,
        /// What is wrong, and the mend.
        why: String,
    },
    /// A disturbance is written wrongly.
    #[error("{name} is {text:?}; write {form}{}", because(.why))]
    Disturbance {
        /// The parameter.
        name: &'static str,
        /// As written.
        text: String,
        /// How to write it.
        form: &'static str,
        /// What is wrong, where more is known.
        why: String,
    },
}

/// How long a run may be.
pub const LONGEST: &str = "a run is up to 146 years";

/// How to get a mean that is above zero and finite.
fn finite_mean(mean: f64) -> &'static str {
    if mean > 0.0 { "bound it, as pareto:ALPHA:MIN:MAX" } else { "give it times above zero" }
}

/// A number, by its magnitude where it has one out of the ordinary.
pub(crate) fn shown(number: f64) -> String {
    match number.abs() {
        1e-6..1e15 | 0.0 => number.to_string(),
        _ => format!("{number:e}"),
    }
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(" ({why})") }
}
