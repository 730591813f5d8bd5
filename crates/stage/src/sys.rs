//! What no library does safely: how threads and sockets are served by the system. All of the unsafe code is here,
//! each block with its reason.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduling {
    /// Fairly, among equals.
    Fair,
    /// Before all that is fair, until it waits (`SCHED_FIFO`).
    Fifo,
    /// When nothing that is fair wants to run (`SCHED_IDLE`).
    Idle,
}

/// Of the least priority that is above all fair threads: a stage goes before others, not before the system.
const FIFO_PRIORITY: i32 = 1;

/// Schedules this thread so.
pub(crate) fn schedule(scheduling: Scheduling) -> io::Result<()> {
    let (policy, sched_priority) = match scheduling {
        Scheduling::Fair => (libc::SCHED_OTHER, 0),
        Scheduling::Fifo => (libc::SCHED_FIFO, FIFO_PRIORITY),
        Scheduling::Idle => (libc::SCHED_IDLE, 0),
    };
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: the parameters live until the call returns; 0 is this thread.
    done(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) })
}

/// The class and level of `ioprio_set(2)`.
pub(crate) fn io_priority(class: u8, level: u8) -> io::Result<()> {
    const WHO_PROCESS: libc::c_int = 1;
    let value = libc::c_int::from(class) << 13 | libc::c_int::from(level);
    // SAFETY: all arguments are numbers; 0 is this thread.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) };
    done(i32::try_from(result).unwrap_or(-1))
}

/// `SO_PRIORITY`: the band of a link's queueing discipline.
pub(crate) fn link_priority(socket: &impl AsFd, priority: i32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, priority)
}

/// `IP_TOS`: what networks see.
pub(crate) fn type_of_service(socket: &impl AsFd, tos: i32) -> io::Result<()> {
    set(socket, libc::IPPROTO_IP, libc::IP_TOS, tos)
}

/// `TCP_NOTSENT_LOWAT`: at most about so many bytes wait in the socket, where nothing can get ahead of them.
pub(crate) fn unsent_bytes(socket: &impl AsFd, bytes: i32) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

fn set(socket: &impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let bytes = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value is of as many bytes as are said, and lives until the call returns.
    done(unsafe {
        libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw const value).cast(), bytes)
    })
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
