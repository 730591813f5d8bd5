//! Whether a run measured what its plan says.
//!
//! A verdict must not hang on chance, so no rule speaks up for [`FEW`] requests or less.

use std::fmt;

use curtail_dist::duration::format;
use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};

/// The schedule lag that is always fine, in nanoseconds.
const LAG_NS_FINE: u64 = 1_000_000;
/// The lag that is fine as a share of the median uncorrected latency: it distorts no percentile
/// that anybody would act on. The uncorrected one, for a lag must not excuse itself.
const LAG_SHARE_FINE: f64 = 0.05;
/// The share of requests that may lag more: the 99th percentile has to be fine.
const LATE_SHARE_FINE: f64 = 0.01;
/// The share of the offered requests that may go unanswered.
const SHORT_SHARE_FINE: f64 = 0.03;
/// So many requests decide nothing.
const FEW: u64 = 3;

/// Why a report must not be relied on. In JSON and for people it is a sentence.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Invalid {
    /// The generator fell behind its schedule: more than 1 % of the requests (and more than 3) were
    /// taken up later than `limit_ns` after their intended times. The limit is 1 ms, or 5 % of the
    /// median uncorrected latency if that is more.
    FellBehind {
        /// Requests that late.
        late: u64,
        /// Requests of the run.
        requests: u64,
        /// What is fine, in nanoseconds.
        limit_ns: u64,
        /// Requests that had to wait for a connection.
        waited: u64,
        /// The connections of the plan.
        connections: usize,
    },
    /// Good answers came in at less than 97 % of the rate at which requests were due (and more than
    /// 3 were missing): the server does not sustain the rate, or fails.
    FellShort {
        /// Good answers in time.
        answered: u64,
        /// Requests of the run.
        requests: u64,
        /// Of those, how many failed.
        failed: u64,
    },
    /// Requests were not sent at all: the backlog was full.
    Dropped {
        /// How many.
        count: u64,
        /// The backlog of the plan.
        backlog: usize,
    },
    /// There is no good answer, so there is no latency.
    NothingMeasured,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::FellBehind { late, requests, limit_ns, waited, connections } => {
                let limit = format(*limit_ns);
                write!(
                    f,
                    "fell behind: {late} of {requests} requests were sent more than {limit} "
                )?;
                write!(f, "after their intended times; ")?;
                if waited * 2 >= *late {
                    write!(f, "{waited} found all {connections} connections busy: use more")
                } else {
                    write!(f, "use a less busy machine, or a lower rate")
                }
            }
            Invalid::FellShort { answered, requests, failed } => {
                write!(
                    f,
                    "fell short: {answered} of {requests} requests were answered well at the "
                )?;
                write!(f, "offered rate, {failed} failed; the server does not sustain this rate")
            }
            Invalid::Dropped { count, backlog } => {
                write!(
                    f,
                    "dropped: {count} requests were never sent, for all connections were busy "
                )?;
                write!(f, "and {backlog} requests waiting; use more connections or a lower rate")
            }
            Invalid::NothingMeasured => write!(f, "nothing measured: there is no good answer"),
        }
    }
}

impl Serialize for Invalid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The lag that is fine for such latencies, in nanoseconds.
pub(crate) fn lag_limit_ns(uncorrected: &Histogram<u64>) -> u64 {
    let median = uncorrected.value_at_quantile(0.5) as f64;
    LAG_NS_FINE.max((median * LAG_SHARE_FINE) as u64)
}

/// How many lags are over the limit, if that is too many.
pub(crate) fn too_late(lag: &Histogram<u64>, limit_ns: u64) -> Option<u64> {
    // A bucket of the histogram holds equivalent values; the limit's own is still fine.
    let over = lag.next_non_equivalent(limit_ns);
    let late = lag.count_between(over, u64::MAX);
    (late > FEW && late as f64 > LATE_SHARE_FINE * lag.len() as f64).then_some(late)
}

/// True if that many answers are too few for that many requests.
pub(crate) fn too_few(answered: u64, requests: u64) -> bool {
    let missing = requests.saturating_sub(answered);
    missing > FEW && missing as f64 > SHORT_SHARE_FINE * requests as f64
}
