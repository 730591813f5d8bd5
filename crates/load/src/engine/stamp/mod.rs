//! When the kernel sent and received a packet: software stamps of `SO_TIMESTAMPING`.
//!
//! What a program sees of a network is late by its own wake-up, which takes longer than many answers.
//! The kernel notes when it handed a packet to the device, and when it got one from it.
//!
//! | stamp | of | how it comes |
//! |---|---|---|
//! | sent | the last byte of a request leaving it | error queue of the socket |
//! | received | the packet whose bytes were read last | beside the bytes |
//!
//! A sent stamp names its request by a number: on UDP that of the datagram, on TCP that of the request's
//! last byte (`OPT_ID`, `OPT_ID_TCP`). The stamp comes without a copy of the packet (`OPT_TSONLY`).
//!
//! Stamping of received packets is switched on for the whole machine, a little later than asked for:
//! [`Keeper`] asks, waits for the first stamped packet, and keeps it on.
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

/// Room for what the kernel says beside bytes. Used again for every call.
#[derive(Debug)]
pub struct Room {
    control: Vec<u8>,
}

impl Room {
    /// Enough for a stamp and the error that it is sent as, with an address; with room to spare.
    pub fn new() -> Room {
        Room { control: cmsg_space!(Timestamps, [u8; 64], [u8; 64]) }
    }
}

impl Default for Room {
    fn default() -> Room {
        Room::new()
    }
}

/// Asks for stamps on a socket: a connected TCP socket on which nothing was sent yet, or a UDP one.
///
/// What the system says. Kernels before 6.2 do not know `OPT_ID_TCP`; there is no error then, and
/// stamps may miss their requests.
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

/// Reads from a socket: how many bytes, and when the packet with the last of them came.
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

/// Takes the timestamps of sent requests from the error queue, oldest first, until it is empty: of each the
/// number of the datagram, or of the last byte in the stream, counted from 0 since timestamps were asked for,
/// and the time in nanoseconds since 1970.
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

/// The software stamp; none if it is zero, which says that there is none.
fn nanoseconds(stamps: &Timestamps) -> Option<u64> {
    let seconds = u64::try_from(stamps.system.tv_sec()).ok()?;
    let rest = u64::try_from(stamps.system.tv_nsec()).ok()?;
    let ns = seconds.checked_mul(1_000_000_000)?.checked_add(rest)?;
    (ns > 0).then_some(ns)
}

#[cfg(test)]
mod tests;
