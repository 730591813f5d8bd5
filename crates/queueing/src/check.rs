//! What can be wrong with the parameters of a model, or with what it is asked.

/// Why a model cannot answer. The message names the value and what to do instead.
#[allow(missing_docs, reason = "the messages say it")]
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
        "the result is {0}, no finite number; choose a unit of time nearer to the service time"
    )]
    NotFinite(f64),
}

/// `are 2 samples`, `is 1 sample`.
pub(crate) fn are(count: usize, what: &str) -> String {
    if count == 1 { format!("is 1 {what}") } else { format!("are {count} {what}s") }
}

/// The most servers, branches or shards of a model: sums over them stay fast.
pub(crate) const MAX_SERVERS: u32 = 1_000_000;

fn within(
    is_allowed: bool,
    name: &'static str,
    value: f64,
    allowed: &'static str,
) -> Result<f64, ModelError> {
    if is_allowed { Ok(value) } else { Err(ModelError::OutOfRange { name, value, allowed }) }
}

/// A rate or a time: above zero and finite.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64, ModelError> {
    within(value.is_finite() && value > 0.0, name, value, "greater than 0 and finite")
}

/// How many servers such rates keep busy.
pub(crate) fn offered(arrival_rate: f64, service_rate: f64) -> Result<f64, ModelError> {
    Ok(positive("arrival rate", arrival_rate)? / positive("service rate", service_rate)?)
}

/// A squared coefficient of variation: zero or more. Infinite has an error of its own.
pub(crate) fn scv(name: &'static str, value: f64) -> Result<f64, ModelError> {
    if value == f64::INFINITY {
        return Err(ModelError::InfiniteMoment(name));
    }
    within(value >= 0.0, name, value, "0 or more")
}

/// A probability, from 0 to 1.
pub(crate) fn probability(name: &'static str, value: f64) -> Result<f64, ModelError> {
    within((0.0..=1.0).contains(&value), name, value, "from 0 to 1")
}

/// A number of servers, branches or shards: 1 to [`MAX_SERVERS`].
pub(crate) fn count(name: &'static str, value: u32) -> Result<u32, ModelError> {
    let allowed = "a whole number from 1 to 1,000,000";
    within((1..=MAX_SERVERS).contains(&value), name, f64::from(value), allowed).map(|_| value)
}

/// A product or a quotient that should be 1 may be less by so much.
const ROUNDING: f64 = 1e-12;

/// A utilization that a queue survives: below 1.
pub(crate) fn stable(utilization: f64) -> Result<f64, ModelError> {
    match utilization {
        ..1.0 if utilization < 1.0 - ROUNDING => Ok(utilization),
        ..1.0 => Err(ModelError::Overload(1.0)),
        _ => Err(ModelError::Overload(utilization)),
    }
}

/// A result: finite.
pub(crate) fn finite(value: f64) -> Result<f64, ModelError> {
    if value.is_finite() { Ok(value) } else { Err(ModelError::NotFinite(value)) }
}
