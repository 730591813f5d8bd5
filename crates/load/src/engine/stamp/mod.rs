//! When the kernel sent and received a packet: software timestamps of `SO_TIMESTAMPING`.
//!
//! A program sees a packet late by its own wake-up, which takes longer than many responses. The kernel
//! records when it handed a packet to the device, and when it received one from it.
//!
//! | timestamp | of | delivered by |
//! |---|---|---|
//! | sent | the last byte of a request | the error queue of the socket |
//! | received | the packet whose bytes were read last | ancillary data of the read |
//!
//! A sent timestamp names its request by a number: on UDP that of the datagram, on TCP that of the request's
//! last byte (`OPT_ID`, `OPT_ID_TCP`). It comes without a copy of the packet (`OPT_TSONLY`).
//!
//! Timestamping of received packets applies to the whole machine, and starts a little after a socket asks for
//! it: [`Keeper`] asks, waits for the first timestamp, and keeps timestamping enabled.
//!
//! Source: document 000, §2.6 and §3.1; Linux, Documentation/networking/timestamping.rst.

mod keeper;
mod realtime;
mod source;

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _};

use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, TimestampingFlag, Timestamps, recvmsg,
    setsockopt, sockopt,
};

pub use keeper::Keeper;
pub(crate) use keeper::Stamping;
pub(crate) use keeper::{clocks, devices};
pub(crate) use realtime::Realtime;
pub use source::{PastStack, StampsBy};
pub(crate) use source::{Source, fits};

/// Linux, include/uapi/linux/net_tstamp.h.
const OPT_ID_TCP: u32 = 1 << 16;
/// Linux, include/uapi/linux/errqueue.h.
const ORIGIN_TIMESTAMPING: u8 = 4;
const STAGE_SENT: u32 = 0;

/// A buffer for ancillary data. Reused for every call.
#[derive(Debug)]
pub struct Room {
    control: Vec<u8>,
}

impl Room {
    /// Enough for a timestamp and the error that carries it, with an address, and some to spare.
    pub fn new() -> Room {
        Room { control: cmsg_space!(Timestamps, [u8; 64], [u8; 64]) }
    }
}

impl Default for Room {
    fn default() -> Room {
        Room::new()
    }
}

/// Asks for timestamps on a socket: a connected TCP socket on which nothing was sent yet, or a UDP one.
///
/// The system's error. Kernels before 6.2 ignore `OPT_ID_TCP` without an error; then timestamps may miss
/// their requests.
pub fn enable(socket: &impl AsFd, stream: bool) -> io::Result<()> {
    use TimestampingFlag as Flag;
    let mut flags = Flag::SOF_TIMESTAMPING_SOFTWARE
        | Flag::SOF_TIMESTAMPING_TX_SOFTWARE
        | Flag::SOF_TIMESTAMPING_RX_SOFTWARE
        | Flag::SOF_TIMESTAMPING_OPT_ID
        | Flag::SOF_TIMESTAMPING_OPT_TSONLY;
    if stream {
        flags |= Flag::from_bits_retain(OPT_ID_TCP);
    }
    Ok(setsockopt(socket, sockopt::Timestamping, &flags)?)
}

/// Reads from a socket: how many bytes, and when the packet with the last of them arrived.
pub fn read(
    socket: &impl AsFd,
    bytes: &mut [u8],
    room: &mut Room,
) -> io::Result<(usize, Option<u64>)> {
    let mut parts = [IoSliceMut::new(bytes)];
    let descriptor = socket.as_fd().as_raw_fd();
    let control = Some(&mut room.control[..]);
    let message = recvmsg::<SockaddrStorage>(descriptor, &mut parts, control, MsgFlags::empty())?;
    let stamp = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampsns(stamps) => nanoseconds(&stamps),
        _ => None,
    });
    Ok((message.bytes, stamp))
}

/// Takes the timestamps of sent requests from the error queue, oldest first, until it is empty. `each` gets
/// the number of the datagram, or of the last byte in the stream, counted from 0 since timestamps were asked
/// for, and the time in nanoseconds since 1970.
pub fn drain(
    socket: &impl AsFd,
    room: &mut Room,
    mut each: impl FnMut(u32, u64),
) -> io::Result<()> {
    let descriptor = socket.as_fd().as_raw_fd();
    loop {
        let mut none = [0; 1];
        let mut parts = [IoSliceMut::new(&mut none)];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let control = Some(&mut room.control[..]);
        let message = match recvmsg::<SockaddrStorage>(descriptor, &mut parts, control, flags) {
            Err(nix::errno::Errno::EAGAIN) => return Ok(()),
            message => message?,
        };
        let (mut stamp, mut number) = (None, None);
        for control in message.cmsgs()? {
            match control {
                ControlMessageOwned::ScmTimestampsns(stamps) => stamp = nanoseconds(&stamps),
                ControlMessageOwned::Ipv4RecvErr(error, _)
                | ControlMessageOwned::Ipv6RecvErr(error, _)
                    if error.ee_origin == ORIGIN_TIMESTAMPING && error.ee_info == STAGE_SENT =>
                {
                    number = Some(error.ee_data);
                }
                _ => {}
            }
        }
        if let (Some(number), Some(realtime_ns)) = (number, stamp) {
            each(number, realtime_ns);
        }
    }
}

/// The software timestamp; none if it is zero, which means no timestamp.
fn nanoseconds(stamps: &Timestamps) -> Option<u64> {
    let seconds = u64::try_from(stamps.system.tv_sec()).ok()?;
    let rest = u64::try_from(stamps.system.tv_nsec()).ok()?;
    let ns = seconds.checked_mul(1_000_000_000)?.checked_add(rest)?;
    (ns > 0).then_some(ns)
}

#[cfg(test)]
mod tests;
