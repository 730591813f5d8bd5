//! What no library does safely: how a thread is scheduled, and how a socket waits. All of the unsafe code is
//! here, each block with its reason.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::Duration;

/// How a thread is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Fairly, among equals.
    Other,
    /// Before all that is fair, until it waits.
    Fifo(i32),
}

/// Schedules this thread so.
pub(crate) fn schedule(policy: Policy) -> io::Result<()> {
    let (policy, priority) = match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
    };
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameters live until the call returns; 0 is this thread.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets reads look at the device for so long before they sleep (`SO_BUSY_POLL`).
pub(crate) fn busy_poll(socket: &impl AsFd, span: Duration) -> io::Result<()> {
    let micros = i32::try_from(span.as_micros()).unwrap_or(i32::MAX);
    let bytes = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value is of as many bytes as are said, and lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BUSY_POLL,
            (&raw const micros).cast(),
            bytes,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
