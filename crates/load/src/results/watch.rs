//! Looks at a run while it goes on, and adds up what its threads hand over.

use std::collections::VecDeque;

use hdrhistogram::Histogram;

use crate::plan::Plan;
use crate::results::record::Record;
use crate::results::summary::{percentile, relative_error};

/// The rate and the percentiles of the last so many looks are what is going on now.
const RECENT: usize = 4;

/// What is known while a run goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Since the start, in nanoseconds.
    pub elapsed_ns: u64,
    /// The measurement has not begun.
    pub warming_up: bool,
    /// Requests sent so far, warm-up included. What the threads have handed over: it is half a second
    /// old.
    pub sent: u64,
    /// Good answers so far, warm-up included.
    pub answered: u64,
    /// Requests that have failed so far, warm-up included, and those that were dropped.
    pub errors: u64,
    /// Good answers per second over the last two seconds.
    pub rate_now: f64,
    /// The median of the measured latencies so far, in nanoseconds, if there are enough.
    pub p50_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
    /// The same of the schedule lag.
    pub lag_p99_ns: Option<u64>,
    /// The measured latencies that the last snapshot did not have yet, in nanoseconds. Those of all
    /// snapshots, the one at the end included, add up to [`Report::histogram`](crate::Report::histogram),
    /// count by count.
    pub recent: Histogram<u64>,
    /// From when on their answers came, in nanoseconds since the start: where the ones before end. A
    /// thread that has nothing to do hands over late, so an answer may be of the time before.
    pub recent_from_ns: u64,
    /// Until when.
    pub recent_until_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) total: Record,
    /// When, in nanoseconds, and how many good answers there were by then.
    recent: VecDeque<(u64, u64)>,
    /// Until when the last snapshot told latencies, and when it was taken: what the threads hand over
    /// next is what they measured until then.
    told_until_ns: u64,
    looked_ns: u64,
    /// How often the percentiles were sure enough in a row.
    sure: u32,
    /// Requests when they are looked at next.
    look_again: u64,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        let recent = VecDeque::from([(0, 0)]);
        let total = Record::new();
        Watch { total, recent, told_until_ns: 0, looked_ns: 0, sure: 0, look_again: 0 }
    }

    /// Adds up what was handed over, and tells what there is.
    pub(crate) fn look_at(&mut self, since: Record, elapsed_ns: u64, plan: &Plan) -> Snapshot {
        self.tell(since, self.looked_ns, elapsed_ns, plan)
    }

    /// Adds up what was left when the threads had ended, and tells all that there is.
    pub(crate) fn last_look(&mut self, rest: Record, elapsed_ns: u64, plan: &Plan) -> Snapshot {
        self.tell(rest, elapsed_ns, elapsed_ns, plan)
    }

    /// What there is with `since`, which was measured until `until_ns`.
    fn tell(&mut self, since: Record, until_ns: u64, elapsed_ns: u64, plan: &Plan) -> Snapshot {
        self.total.merge(&since);
        let from_ns = std::mem::replace(&mut self.told_until_ns, until_ns);
        self.looked_ns = elapsed_ns;
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        let (then_ns, then) = self.recent.front().copied().unwrap_or_default();
        self.recent.push_back((elapsed_ns, self.total.answered));
        let seconds = elapsed_ns.saturating_sub(then_ns) as f64 / 1e9;
        let answers = self.total.answered.saturating_sub(then) as f64;
        Snapshot {
            elapsed_ns,
            warming_up: elapsed_ns < plan.warmup_ns,
            sent: self.total.sent,
            answered: self.total.answered,
            errors: self.total.failed,
            rate_now: if seconds > 0.0 { answers / seconds } else { 0.0 },
            p50_ns: percentile(&self.total.latency, 500),
            p99_ns: percentile(&self.total.latency, 990),
            lag_p99_ns: percentile(&self.total.lag, 990),
            recent: since.latency,
            recent_from_ns: from_ns,
            recent_until_ns: until_ns,
        }
    }

    /// Whether the percentiles are as sure as the plan asks for. They are looked at whenever there are
    /// 10 % more requests, and must be so twice in a row: who looks often enough finds any interval
    /// small for a moment.
    pub(crate) fn sure_enough(&mut self, plan: &Plan) -> bool {
        let Some(precision) = &plan.until else { return false };
        if self.total.requests < self.look_again {
            return false;
        }
        self.look_again = self.total.requests + self.total.requests / 10;
        let (samples, blocks) = (&self.total.latency, &self.total.blocks);
        let sure = precision.per_mille.iter().all(|per_mille| {
            relative_error(samples, blocks, *per_mille)
                .is_some_and(|error| error <= precision.relative)
        });
        self.sure = if sure { self.sure + 1 } else { 0 };
        self.sure >= 2
    }
}
