//! What a leaf counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::slots::Slots;

/// What `GET /stats` answers. Counts are since the start; every query that was not refused ends in
/// exactly one of `served`, `cancelled` and `failed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafStats {
    /// Which shard.
    pub shard: u32,
    /// Which replica of it.
    pub replica: u32,
    /// Queries served to their end, whether or not the client was still there to hear.
    pub served: u64,
    /// Queries given up because their client went away.
    pub cancelled: u64,
    /// Queries sent away because the queue was full.
    pub refused: u64,
    /// Queries that the engine failed on.
    pub failed: u64,
    /// Slots that are taken.
    pub busy: u32,
    /// Queries that wait for a slot.
    pub waiting: u32,
    /// Slots in all.
    pub slots: u32,
    /// Whether this leaf stretches service times.
    pub stretched: bool,
    /// Time that served queries really took, in nanoseconds.
    pub real_time_ns: u64,
    /// Time that waiting added to it, in nanoseconds.
    pub stretched_time_ns: u64,
    /// Hiccups that hit queries in service.
    pub hiccups: u64,
    /// Time that served queries with a hiccup took beyond `P`, in nanoseconds.
    pub hiccup_time_ns: u64,
    /// Time that served queries without one took beyond `P`, in nanoseconds: the lateness of waking
    /// up. It is in the time of hiccups, too, and greater after a longer wait.
    pub late_time_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    served: AtomicU64,
    cancelled: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    real_time_ns: AtomicU64,
    stretched_time_ns: AtomicU64,
    hiccups: AtomicU64,
    hiccup_time_ns: AtomicU64,
    late_time_ns: AtomicU64,
}

/// What a served query took.
pub(super) struct Took {
    pub(super) real: Duration,
    pub(super) stretch: Duration,
    /// Beyond `P`.
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
    pub(super) fn arrived(&self) -> Pending<'_> {
        Pending { counters: self, ended: false }
    }

    pub(super) fn hiccup(&self) {
        self.hiccups.fetch_add(1, Relaxed);
    }

    pub(super) fn read(
        &self,
        (shard, replica): (u32, u32),
        slots: &Slots,
        stretched: bool,
    ) -> LeafStats {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        LeafStats {
            shard,
            replica,
            served: read(&self.served),
            cancelled: read(&self.cancelled),
            refused: read(&self.refused),
            failed: read(&self.failed),
            busy: slots.busy(),
            waiting: slots.waiting(),
            slots: slots.total(),
            stretched,
            real_time_ns: read(&self.real_time_ns),
            stretched_time_ns: read(&self.stretched_time_ns),
            hiccups: read(&self.hiccups),
            hiccup_time_ns: read(&self.hiccup_time_ns),
            late_time_ns: read(&self.late_time_ns),
        }
    }
}

impl Pending<'_> {
    pub(super) fn served(self, took: &Took) {
        let add = |counter: &AtomicU64, time: Duration| {
            counter.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        };
        let Self { counters, .. } = self;
        add(&counters.real_time_ns, took.real);
        add(&counters.stretched_time_ns, took.stretch);
        let beyond = if took.hiccup { &counters.hiccup_time_ns } else { &counters.late_time_ns };
        add(beyond, took.beyond);
        self.end(|counters| &counters.served);
    }

    pub(super) fn refused(self) {
        self.end(|counters| &counters.refused);
    }

    pub(super) fn failed(self) {
        self.end(|counters| &counters.failed);
    }

    fn end(mut self, counter: impl FnOnce(&Counters) -> &AtomicU64) {
        self.ended = true;
        counter(self.counters).fetch_add(1, Relaxed);
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.counters.cancelled.fetch_add(1, Relaxed);
        }
    }
}
