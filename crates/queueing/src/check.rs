//! Validates the parameters of models and the arguments of their methods.

/// The reason why a model has no result. The message names the value and the fix.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    #[error("the {name} is {value}; it must be {allowed}")]
    OutOfRange { name: &'static str, value: f64, allowed: &'static str },
    #[error(
        "the utilization is {}, so the queue grows without end; \
         it must be below 1: lower the arrival rate, shorten the service, or add servers",
        (.0 * 1e4).round() / 1e4
    )]
    Overload(f64),
    #[error(
        "the {0} is infinite, so the mean wait is, too; \
         cut the tail of the service (a time-out, `pareto:ALPHA:MIN:MAX`) or simulate"
    )]
    InfiniteMoment(&'static str),
    #[error(
        "{0} gives no percentiles of this time; simulate, or use a model with a full service law"
    )]
    NoPercentiles(&'static str),
    #[error("there are no servers; name at least one")]
    NoServers,
    #[error(
        "the result is {0}, not a finite number; choose a unit of time nearer to the service time"
    )]
    NotFinite(f64),
}

/// Returns `are 2 samples` or `is 1 sample`.
pub(crate) fn are(count: usize, noun: &str) -> String {
    if count == 1 { format!("is 1 {noun}") } else { format!("are {count} {noun}s") }
}

/// The maximum number of servers, branches or shards of a model, which keeps sums over them fast.
pub(crate) const MAX_SERVERS: u32 = 1_000_000;

fn within(
    is_allowed: bool,
    name: &'static str,
    value: f64,
    allowed: &'static str,
) -> Result<f64, ModelError> {
    if is_allowed { Ok(value) } else { Err(ModelError::OutOfRange { name, value, allowed }) }
}

/// Checks that a rate or a time is above zero and finite.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64, ModelError> {
    within(value.is_finite() && value > 0.0, name, value, "greater than 0 and finite")
}

/// Returns the mean number of servers that are busy at these rates.
pub(crate) fn offered(arrival_rate: f64, service_rate: f64) -> Result<f64, ModelError> {
    Ok(positive("arrival rate", arrival_rate)? / positive("service rate", service_rate)?)
}

/// Checks that a squared coefficient of variation is zero or more. An infinite coefficient is a
/// separate error.
pub(crate) fn scv(name: &'static str, value: f64) -> Result<f64, ModelError> {
    if value == f64::INFINITY {
        return Err(ModelError::InfiniteMoment(name));
    }
    within(value >= 0.0, name, value, "0 or more")
}

/// Checks that a probability is from 0 to 1.
pub(crate) fn probability(name: &'static str, value: f64) -> Result<f64, ModelError> {
    within((0.0..=1.0).contains(&value), name, value, "from 0 to 1")
}

/// Checks that a number of servers, branches or shards is from 1 to [`MAX_SERVERS`].
pub(crate) fn count(name: &'static str, value: u32) -> Result<u32, ModelError> {
    let allowed = "a whole number from 1 to 1,000,000";
    within((1..=MAX_SERVERS).contains(&value), name, f64::from(value), allowed).map(|_| value)
}

/// The maximum rounding error of a product or a quotient that should be 1.
const ROUNDING: f64 = 1e-12;

/// Checks that a utilization is below 1, so the queue is stable.
pub(crate) fn stable(utilization: f64) -> Result<f64, ModelError> {
    match utilization {
        ..1.0 if utilization < 1.0 - ROUNDING => Ok(utilization),
        ..1.0 => Err(ModelError::Overload(1.0)),
        _ => Err(ModelError::Overload(utilization)),
    }
}

/// Checks that a result is finite.
pub(crate) fn finite(value: f64) -> Result<f64, ModelError> {
    if value.is_finite() { Ok(value) } else { Err(ModelError::NotFinite(value)) }
}
