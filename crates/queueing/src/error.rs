//! What can be wrong with the parameters of a model, or with what it is asked.

/// Why a model cannot answer. The message names the value and what to do instead.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    #[error("the {name} is {value}; it must be {allowed}")]
    OutOfRange { name: &'static str, value: f64, allowed: &'static str },
    #[error(
        "the utilization is {0}, so the queue grows without end; \
         it must be below 1: lower the arrival rate, shorten the service, or add servers"
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
