//! What a run has come to so far, for those who watch it from another thread.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use crate::record::Record;
use crate::report::percentile;

/// From one publication to the next, in nanoseconds.
const EVERY_NS: i64 = 200_000_000;

/// Each figure is right by itself; together they may be of slightly different moments.
#[derive(Debug, Default)]
pub(crate) struct Board {
    next_ns: AtomicI64,
    pub(crate) sent: AtomicU64,
    pub(crate) answered: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// Zero if it is not known.
    pub(crate) p99_ns: AtomicU64,
    pub(crate) lag_p99_ns: AtomicU64,
}

impl Board {
    /// Tells what there is, if it is time for it.
    pub(crate) fn publish(&self, now_ns: i64, record: &Record) {
        if now_ns < self.next_ns.load(Relaxed) {
            return;
        }
        self.next_ns.store(now_ns.saturating_add(EVERY_NS), Relaxed);
        self.sent.store(record.sent, Relaxed);
        self.answered.store(record.answered, Relaxed);
        self.errors.store(record.failed, Relaxed);
        self.p99_ns.store(percentile(&record.latency, 990).unwrap_or(0), Relaxed);
        self.lag_p99_ns.store(percentile(&record.lag, 990).unwrap_or(0), Relaxed);
    }
}
