//! Waits for sockets with timeouts in nanoseconds.
//!
//! Timeouts in epoll are in milliseconds, which is too coarse for a load generator, and older
//! kernels lack a variant of epoll with finer timeouts. So the thread waits for the epoll
//! descriptor with ppoll, whose timeouts are in nanoseconds.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

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

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").field("epoll", &self.epoll).finish_non_exhaustive()
    }
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
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

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
