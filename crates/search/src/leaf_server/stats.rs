//! The counters of a leaf.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curtail_runtime::stage::Stage;
use serde::{Deserialize, Serialize};

use super::config::LeafConfig;

/// The response to `GET /stats`. Counts begin when the leaf starts. Every query that was not
/// refused is eventually counted in exactly one of `served`, `cancelled` and `failed`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafStats {
    /// The number of the shard.
    pub shard: u32,
    /// The number of the replica.
    pub replica: u32,
    /// Queries served to completion, whether or not the client was still connected.
    pub served: u64,
    /// Queries abandoned because their client disconnected.
    pub cancelled: u64,
    /// Queries refused because the queue was full.
    pub refused: u64,
    /// Queries on which the engine failed.
    pub failed: u64,
    /// Slots that are taken.
    pub busy: u32,
    /// Queries that wait for a slot.
    pub waiting: u32,
    /// Number of slots.
    pub slots: u32,
    /// Whether this leaf stretches service times.
    pub stretched: bool,
    /// Real time of served queries, in nanoseconds.
    pub real_time_ns: u64,
    /// Time that stretching added to the real time of served queries, in nanoseconds.
    pub stretched_time_ns: u64,
    /// Hiccups that hit queries in service.
    pub hiccups: u64,
    /// Time that served queries with a hiccup took in addition to `P`, in nanoseconds.
    pub hiccup_time_ns: u64,
    /// Time that served queries without a hiccup took in addition to `P`, in nanoseconds. This
    /// additional time is caused by timers that expire late. `hiccup_time_ns` also includes such
    /// delays. The delays increase with the length of the wait.
    pub late_time_ns: u64,
}

/// The current counts. No code panics while it holds the lock, so they are consistent.
#[derive(Debug)]
pub(super) struct Counters(Mutex<LeafStats>);

/// The times of a served query.
pub(super) struct Took {
    pub(super) real: Duration,
    pub(super) stretch: Duration,
    /// Time beyond `P`.
    pub(super) beyond: Duration,
    /// Whether it had a hiccup.
    pub(super) hiccup: bool,
}

/// A query that is counted as cancelled if it is dropped before its end is reported.
pub(super) struct Pending<'a> {
    counters: &'a Counters,
    ended: bool,
}

impl Counters {
    pub(super) fn new(config: &LeafConfig) -> Self {
        let LeafConfig { shard, replica, slots, .. } = *config;
        let stretched =
            config.service_time.is_some() || config.hiccup.is_some() || config.slow.is_some();
        Self(Mutex::new(LeafStats { shard, replica, slots, stretched, ..LeafStats::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, LeafStats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn arrived(&self) -> Pending<'_> {
        Pending { counters: self, ended: false }
    }

    pub(super) fn hiccup(&self) {
        self.lock().hiccups += 1;
    }

    pub(super) fn read(&self, stage: &Stage) -> LeafStats {
        LeafStats { busy: stage.running(), waiting: stage.waiting(), ..self.lock().clone() }
    }
}

impl Pending<'_> {
    pub(super) fn served(self, took: &Took) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.end(|stats| {
            stats.real_time_ns += ns(took.real);
            stats.stretched_time_ns += ns(took.stretch);
            let beyond =
                if took.hiccup { &mut stats.hiccup_time_ns } else { &mut stats.late_time_ns };
            *beyond += ns(took.beyond);
            stats.served += 1;
        });
    }

    pub(super) fn refused(self) {
        self.end(|stats| stats.refused += 1);
    }

    pub(super) fn failed(self) {
        self.end(|stats| stats.failed += 1);
    }

    fn end(mut self, count: impl FnOnce(&mut LeafStats)) {
        self.ended = true;
        count(&mut self.counters.lock());
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.counters.lock().cancelled += 1;
        }
    }
}
