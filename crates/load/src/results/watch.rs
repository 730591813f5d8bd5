//! Observes a run in progress and merges the records of its threads.

use std::collections::VecDeque;

use hdrhistogram::Histogram;

use crate::plan::Plan;
use crate::results::record::Record;
use crate::results::summary::{percentile, relative_error};

/// Number of snapshots over which the current rate is averaged.
const RECENT: usize = 4;

/// The state of a run in progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The time since the start, in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether the run is still in its warm-up.
    pub warming_up: bool,
    /// The number of requests that have been sent, including the warm-up. Threads hand over their
    /// counts every half second.
    pub sent: u64,
    /// The number of good responses that have arrived, including the warm-up.
    pub answered: u64,
    /// The number of requests that have failed or have been dropped, including the warm-up.
    pub errors: u64,
    /// Good responses per second over the last two seconds.
    pub rate_now: f64,
    /// The median of the latencies measured up to this point, in nanoseconds, if there are enough
    /// samples. A failure counts as at least the timeout.
    pub p50_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
    /// The 99th percentile of the schedule lag.
    pub lag_p99_ns: Option<u64>,
    /// The measured latencies since the previous snapshot, in nanoseconds. The latencies of all
    /// snapshots, including the final one, add up to
    /// [`Report::histogram`](crate::Report::histogram), count by count.
    pub recent: Histogram<u64>,
    /// The start of the interval in which these responses arrived, in nanoseconds since the start
    /// of the run. It equals the end of the previous snapshot's interval. An idle thread hands over
    /// its measurements late, so some of the responses may have arrived earlier.
    pub recent_from_ns: u64,
    /// The end of the interval in which these responses arrived.
    pub recent_until_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) total: Record,
    /// Snapshot times in nanoseconds, each with the number of good responses up to that time.
    recent: VecDeque<(u64, u64)>,
    /// The end of the interval of the last snapshot, and the time of that snapshot. The next
    /// records that threads hand over contain their measurements up to that time.
    reported_until_ns: u64,
    snapshot_ns: u64,
    /// Number of consecutive checks in which the percentiles were precise enough.
    sure: u32,
    /// The number of requests at the next precision check.
    check_at: u64,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        let recent = VecDeque::from([(0, 0)]);
        let total = Record::new();
        Watch { total, recent, reported_until_ns: 0, snapshot_ns: 0, sure: 0, check_at: 0 }
    }

    /// Merges a record, and returns the state of the run.
    pub(crate) fn look_at(&mut self, since: Record, elapsed_ns: u64, plan: &Plan) -> Snapshot {
        self.snapshot(since, self.snapshot_ns, elapsed_ns, plan)
    }

    /// Merges the remaining records after the threads have exited, and returns the final state.
    pub(crate) fn last_look(&mut self, last: Record, elapsed_ns: u64, plan: &Plan) -> Snapshot {
        self.snapshot(last, elapsed_ns, elapsed_ns, plan)
    }

    /// Merges `since`, which was measured until `until_ns`, and returns the state.
    fn snapshot(&mut self, since: Record, until_ns: u64, elapsed_ns: u64, plan: &Plan) -> Snapshot {
        self.total.merge(&since);
        let from_ns = std::mem::replace(&mut self.reported_until_ns, until_ns);
        self.snapshot_ns = elapsed_ns;
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        let (then_ns, then) = self.recent.front().copied().unwrap_or_default();
        self.recent.push_back((elapsed_ns, self.total.answered));
        let seconds = elapsed_ns.saturating_sub(then_ns) as f64 / 1e9;
        let responses = self.total.answered.saturating_sub(then) as f64;
        let all = self.total.all();
        Snapshot {
            elapsed_ns,
            warming_up: elapsed_ns < plan.warmup_ns,
            sent: self.total.sent,
            answered: self.total.answered,
            errors: self.total.failed,
            rate_now: if seconds > 0.0 { responses / seconds } else { 0.0 },
            p50_ns: percentile(&all, 500),
            p99_ns: percentile(&all, 990),
            lag_p99_ns: percentile(&self.total.lag, 990),
            recent: since.latency,
            recent_from_ns: from_ns,
            recent_until_ns: until_ns,
        }
    }

    /// Whether the percentiles have the precision that the plan requires. Checks whenever the
    /// number of requests has grown by 10 %, and requires two consecutive successes. An interval
    /// that is checked often enough will be narrow by chance at some point.
    pub(crate) fn sure_enough(&mut self, plan: &Plan) -> bool {
        let Some(precision) = &plan.until else { return false };
        if self.total.requests < self.check_at {
            return false;
        }
        self.check_at = self.total.requests + self.total.requests / 10;
        let (samples, blocks) = (&self.total.all(), &self.total.blocks);
        let sure = precision.per_mille.iter().all(|per_mille| {
            relative_error(samples, blocks, *per_mille)
                .is_some_and(|error| error <= precision.relative)
        });
        self.sure = if sure { self.sure + 1 } else { 0 };
        self.sure >= 2
    }
}
