//! The time of a run: nanoseconds since the start of its schedule.

use std::hint;
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
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> i64 {
        let since = now.saturating_duration_since(self.epoch);
        let until = self.epoch.saturating_duration_since(now);
        nanoseconds(since) - nanoseconds(until)
    }

    /// The same, zero before.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.now_ns()).unwrap_or(0)
    }

    /// Does nothing until it is `until_ns`, and tells how late it was then, in nanoseconds since the
    /// start. Moments are compared as they are: what is reckoned in a turn makes it longer.
    pub(crate) fn spin_until(&self, until_ns: i64) -> i64 {
        let until = self.moment(until_ns.max(0).unsigned_abs());
        let mut now = Instant::now();
        while now < until {
            hint::spin_loop();
            now = Instant::now();
        }
        self.at(now)
    }

    /// The moment so long after the start.
    pub(crate) fn moment(&self, ns: u64) -> Instant {
        self.epoch + Duration::from_nanos(ns)
    }
}

fn nanoseconds(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}
