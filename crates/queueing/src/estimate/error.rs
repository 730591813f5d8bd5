//! Why nothing can be estimated from a log.

use super::MIN_RECORDS;

/// Why a log tells nothing. The message names the value and the mend.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EstimateError {
    #[error("there {}; at least {MIN_RECORDS} are needed", crate::error::are(*.0, "request"))]
    TooFew(usize),
    #[error("there are {0} servers; say how many serve, from 1 to 1,000,000")]
    BadServers(u32),
    #[error("request {0} has a time that is not finite, or beyond 1e150; leave it out")]
    BadTime(usize),
    #[error(
        "request {index} ends at {end}, before it starts at {start}, or starts before it arrives; \
        correct the clocks, or leave it out"
    )]
    OutOfOrder { index: usize, start: f64, end: f64 },
    #[error(
        "request {0} has a start where others have none, or the reverse; \
         give starts to all or to none"
    )]
    MixedStarts(usize),
    #[error(
        "request {index} ends at {end}, before it could start at {start} \
        if servers that are first come first served were {servers}; log the starts, or give the number of servers that there are"
    )]
    Overtaken { index: usize, start: f64, end: f64, servers: u32 },
    #[error(
        "request {index} starts at {start}, when as many as there are servers, {servers}, are in service: \
        there must be more"
    )]
    Overlap { index: usize, start: f64, servers: u32 },
    #[error(
        "the mean {0} is zero, or nearly so; log requests over a longer time, by a finer clock"
    )]
    NoTime(&'static str),
}
