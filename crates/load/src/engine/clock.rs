//! The clock of a run, and how a thread waits for the next request. Times are nanoseconds since the
//! start of the schedule.

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

    /// Returns the time since the start of the schedule, in nanoseconds. Before the start, the time
    /// is negative.
    pub(crate) fn now_ns(&self) -> i64 {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> i64 {
        let since = now.saturating_duration_since(self.epoch);
        let until = self.epoch.saturating_duration_since(now);
        nanoseconds(since) - nanoseconds(until)
    }

    /// Returns the time since the start of the schedule, in nanoseconds. Before the start, the time
    /// is zero.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.now_ns()).unwrap_or(0)
    }

    /// Spins until `until_ns` and returns the time, in nanoseconds since the start. The loop
    /// compares instants directly, because arithmetic would make each iteration longer.
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

/// The amount by which a sleep is shortened, to allow for the usual wake-up delay. If the wake-up
/// is on time, the thread polls the sockets until the request is due. It does not yield the
/// processor, because on a busy machine it would take milliseconds to get it back.
const SLEEP_MARGIN_NS: i64 = 60_000;
/// Duration of one poll of the sockets, including the time to read one response.
const POLL_NS: i64 = 5_000;

#[derive(Debug)]
pub(super) struct Waiting {
    spin: bool,
    polled: bool,
    /// Total time during which the thread had no work.
    pub(super) idle_ns: u64,
}

#[derive(Debug)]
pub(super) enum Waited {
    Events(usize),
    Due(i64),
}

impl Waiting {
    pub(super) fn new(spin: bool) -> Waiting {
        // By default the kernel may delay a timer by 50 µs, so that it can serve several timers
        // together. If setting the timer slack fails, requests can be late by up to 50 µs, and the
        // reported lag includes this delay.
        #[cfg(target_os = "linux")]
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        Waiting { spin, polled: false, idle_ns: 0 }
    }

    /// Adds the part of an interval that precedes the time at which the next request is due. The
    /// rest of the interval is lateness, not idle time.
    fn rested(&mut self, before_ns: i64, after_ns: i64) {
        self.idle_ns += (before_ns.max(0) - after_ns.max(0)).max(0).unsigned_abs();
    }

    pub(super) fn wait(
        &mut self,
        clock: Clock,
        until_ns: i64,
        poller: &mut Poller,
    ) -> io::Result<Waited> {
        let left_ns = until_ns - clock.now_ns();
        if left_ns > POLL_NS || !self.polled {
            self.polled = true;
            let sleep_ns = if self.spin { 0 } else { (left_ns - SLEEP_MARGIN_NS).max(0) };
            let events = poller.wait(Duration::from_nanos(sleep_ns as u64))?;
            if left_ns > 0 && (events == 0 || sleep_ns > 0) {
                self.rested(left_ns, until_ns - clock.now_ns());
            }
            return Ok(Waited::Events(events));
        }
        self.polled = false;
        let now_ns = clock.spin_until(until_ns);
        self.rested(left_ns, until_ns - now_ns);
        Ok(Waited::Due(now_ns))
    }
}
