//! When to sleep, when to look at the sockets, and when only at the clock.

use std::io;
use std::time::Duration;

use super::clock::Clock;
use super::poller::Poller;

/// How much too early the thread asks to be woken: what the system is usually late by. Should it be
/// on time, the thread looks at the sockets for the rest. It does not yield instead: on a busy
/// machine, giving the processor away takes milliseconds to get it back.
const WAKE_EARLY_NS: i64 = 60_000;
/// What looking at the sockets takes, with an answer to read.
const LOOK_NS: i64 = 5_000;

#[derive(Debug)]
pub(super) struct Waiting {
    /// Never sleep.
    spin: bool,
    /// The sockets were looked at since the last request was due.
    looked: bool,
}

/// What a wait came to.
#[derive(Debug)]
pub(super) enum Waited {
    /// The poller has so many events.
    Events(usize),
    /// It is time. It was so late when that was seen, in nanoseconds on the clock of the run.
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

    /// Waits for a socket, but not beyond `until_ns`.
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
