//! Why nothing can be estimated from a log.

use super::MIN_RECORDS;

/// Why a log tells nothing. The message names the value and the mend.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EstimateError {
    /// There are too few requests.
    #[error("there {}; at least {MIN_RECORDS} are needed", crate::error::are(*.0, "request"))]
    TooFew(usize),
    /// The number of servers is not one that starts are worked out for.
    #[error("there are {0} servers; say how many serve, from 1 to 1,000,000")]
    BadServers(u32),
    /// A time is no number, or none to compute with.
    #[error("request {0} has a time that is not finite, or beyond 1e150; leave it out")]
    BadTime(usize),
    /// A request's times are out of order.
    #[error(
        "request {index} ends at {end}, before it starts at {start}, or starts before it arrives; \
        correct the clocks, or leave it out"
    )]
    OutOfOrder {
        /// Its place, counted from 0.
        index: usize,
        /// When it starts.
        start: f64,
        /// When it ends.
        end: f64,
    },
    /// Some requests say when they started and some do not.
    #[error(
        "request {0} has a start where others have none, or the reverse; \
         give starts to all or to none"
    )]
    MixedStarts(usize),
    /// Without starts: the ends cannot be those of so many servers, first come first served.
    #[error(
        "request {index} ends at {end}, before it could start at {start} \
        if servers that are first come first served were {servers}; log the starts, or give the number of servers that there are"
    )]
    Overtaken {
        /// Its place, counted from 0.
        index: usize,
        /// When it would start.
        start: f64,
        /// When it ends.
        end: f64,
        /// The number of servers.
        servers: u32,
    },
    /// With starts: more are in service at once than there are servers.
    #[error(
        "request {index} starts at {start}, when as many as there are servers, {servers}, are in service: \
        there must be more"
    )]
    Overlap {
        /// Its place, counted from 0.
        index: usize,
        /// When it starts.
        start: f64,
        /// The number of servers.
        servers: u32,
    },
    /// All requests arrive at once, or no service takes any time.
    #[error(
        "the mean {0} is zero, or nearly so; log requests over a longer time, by a finer clock"
    )]
    NoTime(&'static str),
}
