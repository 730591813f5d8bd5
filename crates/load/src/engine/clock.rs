//! The time of a run, in nanoseconds since the start of its schedule; and how a thread waits for the next
//! request.

use std::hint;
use std::io;
use std::time::{Duration, Instant};

use super::poller::Poller;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
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

    pub(crate) fn moment(&self, ns: u64) -> Instant {
        self.epoch + Duration::from_nanos(ns)
    }
}

fn nanoseconds(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

/// How much too early the thread asks to be woken: what the system is usually late by. Should it be
/// on time, the thread looks at the sockets for the rest. It does not yield instead: on a busy
/// machine, giving the processor away takes milliseconds to get it back.
const WAKE_EARLY_NS: i64 = 60_000;
/// What looking at the sockets takes, with an answer to read.
const LOOK_NS: i64 = 5_000;

#[derive(Debug)]
pub(super) struct Waiting {
    spin: bool,
    looked: bool,
}

#[derive(Debug)]
pub(super) enum Waited {
    Events(usize),
    Due(i64),
}

impl Waiting {
    pub(super) fn new(spin: bool) -> Waiting {
        // A timer may be late by 50 µs otherwise, so that the system can serve some at once. Without
        // the right to change that, requests are that much later, which the lag shows.
        #[cfg(target_os = "linux")]
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        Waiting { spin, looked: false }
    }

    pub(super) fn wait(
        &mut self,
        clock: Clock,
        until_ns: i64,
        poller: &mut Poller,
    ) -> io::Result<Waited> {
        let left_ns = until_ns - clock.now_ns();
        if left_ns > LOOK_NS || !self.looked {
            self.looked = true;
            let sleep_ns = if self.spin { 0 } else { (left_ns - WAKE_EARLY_NS).max(0) };
            return poller.wait(Duration::from_nanos(sleep_ns as u64)).map(Waited::Events);
        }
        self.looked = false;
        Ok(Waited::Due(clock.spin_until(until_ns)))
    }
}
