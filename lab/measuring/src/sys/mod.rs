//! System calls that no library wraps safely: the scheduling of a thread and the busy polling of a
//! socket. All unsafe code of the crate is here, and each block states its reason.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::Duration;

/// Sets the scheduling policy of this thread. With a priority, it runs before all fair threads until
/// it waits (`SCHED_FIFO`). Without one, it is a fair thread (`SCHED_OTHER`).
pub(crate) fn schedule(priority: Option<i32>) -> io::Result<()> {
    let policy = if priority.is_some() { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    let priority = priority.unwrap_or(0);
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameters live until the call returns; 0 is this thread.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets reads poll the device for this time before they sleep (`SO_BUSY_POLL`).
pub(crate) fn busy_poll(socket: &impl AsFd, span: Duration) -> io::Result<()> {
    let micros = i32::try_from(span.as_micros()).unwrap_or(i32::MAX);
    let bytes = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value has the stated length and lives until the call returns.
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
