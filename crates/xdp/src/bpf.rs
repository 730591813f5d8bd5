//! Creates BPF maps and programs, with the few bpf(2) calls that this crate needs.
//!
//! No map, program or attachment outlives its descriptor, so the kernel removes all of them when
//! the process ends for any reason. Source: Linux, include/uapi/linux/bpf.h, `union bpf_attr`.

use std::ffi::{CStr, c_long};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

const MAP_CREATE: c_long = 0;
const MAP_UPDATE: c_long = 2;
const PROGRAM_LOAD: c_long = 5;
const PROGRAM_TEST: c_long = 10;
const LINK_CREATE: c_long = 28;

const MAP_OF_SOCKETS: u32 = 17;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const MODE_GENERIC: u32 = 1 << 1;
const MODE_DRIVER: u32 = 1 << 2;

/// The BPF helpers that we call require a license compatible with the GPL.
const LICENSE: &CStr = c"Dual MIT/GPL";
const LOG_BYTES: usize = 1 << 16;

#[repr(C)]
struct Map {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct Update {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[repr(C)]
struct Test {
    program: u32,
    result: u32,
    bytes_in: u32,
    bytes_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    took_ns: u32,
}

#[repr(C)]
struct Link {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// The point on a packet's path at which a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel allocates a packet buffer.
    Driver,
    /// At the entrance to the network stack, on any device.
    Generic,
}

/// The result of a program on one packet.
#[derive(Debug)]
pub struct Tested {
    /// The return value (include/uapi/linux/bpf.h, `enum xdp_action`).
    pub action: u32,
    /// The contents of the packet after the run.
    pub packet: Vec<u8>,
}

/// Creates a map with room for one AF_XDP socket, which is the socket for the first queue.
pub fn map_of_sockets() -> io::Result<OwnedFd> {
    let map = Map { kind: MAP_OF_SOCKETS, key_bytes: 4, value_bytes: 4, entries: 1, flags: 0 };
    descriptor(MAP_CREATE, map)
}

/// Puts an AF_XDP socket into the map. The kernel removes it when the socket is closed.
pub fn set_socket(map: BorrowedFd<'_>, socket: BorrowedFd<'_>) -> io::Result<()> {
    let (key, value) = (0_u32, socket.as_raw_fd() as u32);
    let update = Update {
        map: map.as_raw_fd() as u32,
        pad: 0,
        key: &raw const key as u64,
        value: &raw const value as u64,
        flags: 0,
    };
    call(MAP_UPDATE, update).map(drop)
}

/// Loads a program, which the kernel verifies and compiles.
pub fn load(name: &str, instructions: &[u64]) -> io::Result<OwnedFd> {
    let mut log = vec![0_u8; LOG_BYTES];
    let mut short = [0; 16];
    let kept = name.len().min(15);
    short[..kept].copy_from_slice(&name.as_bytes()[..kept]);
    let program = Load {
        kind: PROGRAM_XDP,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log_level: 1,
        log_bytes: LOG_BYTES as u32,
        log: log.as_mut_ptr() as u64,
        kernel: 0,
        flags: 0,
        name: short,
        interface: 0,
        attach: ATTACH_XDP,
    };
    descriptor(PROGRAM_LOAD, program).map_err(|error| {
        let verdict = String::from_utf8_lossy(&log);
        let verdict = verdict.trim_end_matches('\0').trim();
        io::Error::new(error.kind(), format!("{name}: {error} {verdict}"))
    })
}

/// Attaches a program to a device in this thread's network namespace. It stays attached until the
/// returned value is dropped.
pub fn attach(program: BorrowedFd<'_>, interface: u32, mode: Mode) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    let flags = match mode {
        Mode::Driver => MODE_DRIVER,
        Mode::Generic => MODE_GENERIC,
    };
    descriptor(LINK_CREATE, Link { program, interface, attach: ATTACH_XDP, flags })
}

/// Runs a program on a packet, without using a device.
pub fn test(program: BorrowedFd<'_>, packet: &[u8]) -> io::Result<Tested> {
    let mut out = vec![0_u8; packet.len() + 256];
    let mut test = Test {
        program: program.as_raw_fd() as u32,
        result: 0,
        bytes_in: packet.len() as u32,
        bytes_out: out.len() as u32,
        data_in: packet.as_ptr() as u64,
        data_out: out.as_mut_ptr() as u64,
        repeat: 1,
        took_ns: 0,
    };
    // SAFETY: each pointer points to a buffer whose length is in the corresponding length field.
    // The buffers live until the call returns.
    unsafe { raw(PROGRAM_TEST, &mut test) }?;
    out.truncate(test.bytes_out as usize);
    Ok(Tested { action: test.result, packet: out })
}

fn descriptor<T>(command: c_long, attributes: T) -> io::Result<OwnedFd> {
    let number = call(command, attributes)?;
    let number = i32::try_from(number).map_err(io::Error::other)?;
    // SAFETY: these commands return a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn call<T>(command: c_long, mut attributes: T) -> io::Result<c_long> {
    // SAFETY: pointers in the attributes point to data that the callers keep alive until this
    // returns.
    unsafe { raw(command, &mut attributes) }
}

/// # Safety
///
/// `attributes` must be of the type that the command expects, and each pointer in them must point
/// to as much data as the attributes state.
unsafe fn raw<T>(command: c_long, attributes: &mut T) -> io::Result<c_long> {
    let bytes = size_of::<T>();
    // SAFETY: the caller upholds the contract of this function. The kernel reads missing attributes
    // as zero.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
