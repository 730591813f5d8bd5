//! System calls that have no safe wrapper. They determine how the system schedules threads and
//! treats sockets. This module contains all unsafe code of the crate. Each unsafe block states why
//! it is sound.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// The way in which a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduling {
    /// The thread is scheduled fairly, like other threads.
    Fair,
    /// The thread runs before all fairly scheduled threads, until it blocks (`SCHED_FIFO`).
    Fifo,
    /// The thread runs only when no fairly scheduled thread is ready (`SCHED_IDLE`).
    Idle,
}

/// The lowest real-time priority. It is higher than the priority of all fairly scheduled threads,
/// but not higher than that of the system's own threads.
const FIFO_PRIORITY: i32 = 1;

/// Sets the scheduling policy of this thread.
pub(crate) fn schedule(scheduling: Scheduling) -> io::Result<()> {
    let (policy, sched_priority) = match scheduling {
        Scheduling::Fair => (libc::SCHED_OTHER, 0),
        Scheduling::Fifo => (libc::SCHED_FIFO, FIFO_PRIORITY),
        Scheduling::Idle => (libc::SCHED_IDLE, 0),
    };
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: the parameters live until the call returns, and 0 stands for this thread.
    done(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) })
}

/// Sets the class and level of `ioprio_set(2)` for this thread.
pub(crate) fn io_priority(class: u8, level: u8) -> io::Result<()> {
    const WHO_PROCESS: libc::c_int = 1;
    let value = libc::c_int::from(class) << 13 | libc::c_int::from(level);
    // SAFETY: all arguments are numbers, and 0 stands for this thread.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) };
    done(i32::try_from(result).unwrap_or(-1))
}

/// Sets `SO_PRIORITY`, which selects the band in a link's queueing discipline.
pub(crate) fn link_priority(socket: &impl AsFd, priority: i32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, priority)
}

/// Sets `IP_TOS`, which is visible to networks.
pub(crate) fn type_of_service(socket: &impl AsFd, tos: i32) -> io::Result<()> {
    set(socket, libc::IPPROTO_IP, libc::IP_TOS, tos)
}

/// Sets `TCP_NOTSENT_LOWAT`, the approximate maximum number of bytes that wait in the socket.
/// Nothing can overtake these bytes.
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
