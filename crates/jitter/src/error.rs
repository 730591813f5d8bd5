//! What is wrong with executions or a floor.

use super::{EXECUTIONS_MAX, QUERIES_MAX};

/// Why executions, a floor or a rule cannot be used. The message names the value and the mend.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum JitterError {
    /// No query was declared, or too many were.
    #[error("there are {0} queries; give from 1 to {QUERIES_MAX}")]
    Queries(usize),
    /// An execution is of a query that was not declared.
    #[error("query {query} was not declared; there are {queries}, counted from 0")]
    UnknownQuery {
        /// Its number.
        query: usize,
        /// How many were declared.
        queries: usize,
    },
    /// There are too many executions.
    #[error("there are more than {EXECUTIONS_MAX} executions; repeat each query less often")]
    TooManyExecutions,
    /// The floor was not observed for any time beyond its gaps.
    #[error(
        "the floor was observed for {observed_ns} ns, of which {gaps_ns} ns were gaps; \
         observe it for longer"
    )]
    NothingObserved {
        /// For how long it was observed, in nanoseconds.
        observed_ns: u64,
        /// How much of it were gaps, in nanoseconds.
        gaps_ns: u128,
    },
    /// The rule for how often to repeat is not one.
    #[error(
        "repetitions from {least} to {most} with a tolerance of {tolerance}: \
         the first is at least 1 and no more than the second, the tolerance above 0"
    )]
    BadRule {
        /// The fewest repetitions.
        least: u32,
        /// The most repetitions.
        most: u32,
        /// The tolerance, as a share of mean P.
        tolerance: f64,
    },
}
