//! The time of a run: nanoseconds since the start of its schedule.

use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
    /// The schedule starts at `epoch`.
    pub(crate) fn new(epoch: Instant) -> Clock {
        Clock { epoch }
    }

    /// Nanoseconds since the start; negative before.
    pub(crate) fn now_ns(&self) -> i64 {
        let now = Instant::now();
        let since = now.saturating_duration_since(self.epoch);
        let until = self.epoch.saturating_duration_since(now);
        nanoseconds(since) - nanoseconds(until)
    }

    /// The same, zero before.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.now_ns()).unwrap_or(0)
    }

    /// The moment so long after the start.
    pub(crate) fn moment(&self, ns: u64) -> Instant {
        self.epoch + Duration::from_nanos(ns)
    }
}

fn nanoseconds(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}
