//! System calls without a safe wrapper: how the system schedules threads and treats sockets. All
//! unsafe code of the crate is here, each block with its reason.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// The way in which a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduling {
    /// Fairly, like other threads.
    Fair,
    /// Before all fair threads, until it blocks (`SCHED_FIFO`).
    Fifo,
    /// Only when no fair thread is ready (`SCHED_IDLE`).
    Idle,
}

/// The lowest real-time priority. It is above all fair threads, but not above the system's own
/// threads.
const FIFO_PRIORITY: i32 = 1;

/// Sets the scheduling of this thread.
pub(crate) fn schedule(scheduling: Scheduling) -> io::Result<()> {
    let (policy, sched_priority) = match scheduling {
        Scheduling::Fair => (libc::SCHED_OTHER, 0),
        Scheduling::Fifo => (libc::SCHED_FIFO, FIFO_PRIORITY),
        Scheduling::Idle => (libc::SCHED_IDLE, 0),
    };
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: the parameters live until the call returns; 0 means this thread.
    done(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) })
}

/// Sets the class and level of `ioprio_set(2)` for this thread.
pub(crate) fn io_priority(class: u8, level: u8) -> io::Result<()> {
    const WHO_PROCESS: libc::c_int = 1;
    let value = libc::c_int::from(class) << 13 | libc::c_int::from(level);
    // SAFETY: all arguments are numbers; 0 means this thread.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) };
    done(i32::try_from(result).unwrap_or(-1))
}

/// Sets `SO_PRIORITY`, the band in the queueing discipline of a link.
pub(crate) fn link_priority(socket: &impl AsFd, priority: i32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, priority)
}

/// Sets `IP_TOS`, which networks see.
pub(crate) fn type_of_service(socket: &impl AsFd, tos: i32) -> io::Result<()> {
    set(socket, libc::IPPROTO_IP, libc::IP_TOS, tos)
}

/// Sets `TCP_NOTSENT_LOWAT`, about the largest number of bytes that wait in the socket, where
/// nothing can overtake them.
pub(crate) fn unsent_bytes(socket: &impl AsFd, bytes: i32) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

fn set(socket: &impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let bytes = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value has the given number of bytes, and lives until the call returns.
    done(unsafe {
        libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw const value).cast(), bytes)
    })
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
