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
}

/// A query that is counted as cancelled if it is dropped before its end is told.
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
        let [served, cancelled, refused, failed, real_time_ns, stretched_time_ns, hiccups] = [
            &self.served,
            &self.cancelled,
            &self.refused,
            &self.failed,
            &self.real_time_ns,
            &self.stretched_time_ns,
            &self.hiccups,
        ]
        .map(|counter| counter.load(Relaxed));
        let (busy, waiting, slots) = (slots.busy(), slots.waiting(), slots.total());
        LeafStats {
            shard,
            replica,
            served,
            cancelled,
            refused,
            failed,
            busy,
            waiting,
            slots,
            stretched,
            real_time_ns,
            stretched_time_ns,
            hiccups,
        }
    }
}

impl Pending<'_> {
    pub(super) fn served(self, real: Duration, stretch: Duration) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counters.real_time_ns.fetch_add(nanos(real), Relaxed);
        self.counters.stretched_time_ns.fetch_add(nanos(stretch), Relaxed);
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
