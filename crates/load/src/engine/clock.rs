//! The clock of a run, and how a thread waits for the next request or for a socket. Times are
//! nanoseconds since the start of the schedule.
//!
//! Timeouts in epoll are in milliseconds, which is too coarse for a load generator, and older kernels
//! lack a variant of epoll with finer timeouts. So the thread waits for the epoll descriptor with
//! ppoll, whose timeouts are in nanoseconds.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use std::{hint, io};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

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

/// Maximum number of events per call. Further events wait for the next call.
const EVENTS_MAX: usize = 256;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) id: u64,
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) error: bool,
}

pub(super) struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    pub(super) fn new() -> io::Result<Poller> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Watches a socket for reads, and for writes if `writable`, until the socket is closed.
    pub(super) fn add(&self, socket: impl AsFd, id: u64, writable: bool) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(id), flags(writable))?)
    }

    pub(super) fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    pub(super) fn modify(&self, socket: impl AsFd, id: u64, writable: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(id), flags(writable))?)
    }

    /// Waits for events for up to `at_most`; returns immediately if that is zero.
    /// [`ready`](Poller::ready) returns the events.
    pub(super) fn wait(&mut self, at_most: Duration) -> io::Result<usize> {
        self.events.clear();
        if !at_most.is_zero() {
            let time = Timespec {
                tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: at_most.subsec_nanos().into(),
            };
            let mut any = [PollFd::new(&self.epoll, PollFlags::IN)];
            match rustix::event::poll(&mut any, Some(&time)) {
                Ok(0) | Err(Errno::INTR) => return Ok(0),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&NOW)) {
            Err(Errno::INTR) => Ok(0),
            found => Ok(found?),
        }
    }

    pub(super) fn ready(&self, at: usize) -> Ready {
        let Event { flags, data } = self.events[at];
        Ready {
            id: data.u64(),
            readable: flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::RDHUP),
            writable: flags.contains(EventFlags::OUT),
            error: flags.contains(EventFlags::ERR),
        }
    }
}

fn flags(writable: bool) -> EventFlags {
    let read = EventFlags::IN | EventFlags::RDHUP;
    if writable { read | EventFlags::OUT } else { read }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn readable_and_writable_sockets_are_reported() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&far, 7, false).unwrap();
        assert_eq!(poller.wait(Duration::ZERO).unwrap(), 0);
        near.write_all(b"x").unwrap();
        assert_eq!(poller.wait(Duration::from_secs(10)).unwrap(), 1);
        let ready = Ready { id: 7, readable: true, writable: false, error: false };
        assert_eq!(poller.ready(0), ready);
        poller.modify(&far, 8, true).unwrap();
        assert_eq!(poller.wait(Duration::from_secs(10)).unwrap(), 1);
        assert_eq!(poller.ready(0), Ready { id: 8, writable: true, ..ready });
        poller.remove(&far).unwrap();
        assert_eq!(poller.wait(Duration::ZERO).unwrap(), 0);
        poller.add(&far, 9, false).unwrap();
        assert_eq!(poller.wait(Duration::ZERO).unwrap(), 1);
        drop(far);
        assert_eq!(poller.wait(Duration::ZERO).unwrap(), 0, "a closed socket is forgotten");
    }
}
