//! What can be wrong with the parameters of a model, or with what it is asked.

/// Why a model cannot answer. The message names the value and what to do instead.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A parameter is outside what the model allows; NaN is.
    #[error("the {name} is {value}; it must be {allowed}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The values that are allowed, in words.
        allowed: &'static str,
    },
    /// More work arrives than can be served, so the queue grows without end.
    #[error(
        "the utilization is {0}, so the queue grows without end; \
         it must be below 1: lower the arrival rate, shorten the service, or add servers"
    )]
    Overload(f64),
    /// A moment that the model needs is infinite.
    #[error(
        "the {0} is infinite, so the mean wait is, too; \
         cut the tail of the service (a time-out, `pareto:ALPHA:MIN:MAX`) or simulate"
    )]
    InfiniteMoment(&'static str),
    /// The model gives means only.
    #[error(
        "{0} gives no percentiles of this time; simulate, or use a model with a full service law"
    )]
    NoPercentiles(&'static str),
    /// There is no server to send anything to.
    #[error("there are no servers; name at least one")]
    NoServers,
    /// The parameters are so extreme that the result is no finite number.
    #[error(
        "the result is {0}, no finite number; choose a unit of time nearer to the service time"
    )]
    NotFinite(f64),
}

/// `are 2 samples`, `is 1 sample`.
pub(crate) fn are(count: usize, what: &str) -> String {
    if count == 1 { format!("is 1 {what}") } else { format!("are {count} {what}s") }
}
