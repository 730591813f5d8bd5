//! Timestamps of sent and received packets, taken with `SO_TIMESTAMPING` in software or hardware.
//!
//! A program sees a packet only after its own wake-up, which takes longer than many responses. The
//! kernel records when it handed a packet to the device, and when it received a packet from the
//! device. A device with its own clock records when the packet was on the wire.
//!
//! | timestamp | event | delivered by |
//! |---|---|---|
//! | sent | the last byte of a request leaves | the error queue of the socket |
//! | received | the packet with the last bytes of a read arrives | ancillary data of the read |
//!
//! The number that comes with a sent timestamp identifies its request: on UDP it is the number of
//! the datagram, and on TCP it is the number of the request's last byte (`OPT_ID`, `OPT_ID_TCP`).
//! The timestamp is delivered without a copy of the packet (`OPT_TSONLY`).
//!
//! Software timestamping of received packets applies to the whole machine, and starts shortly after
//! a socket requests it. [`Keeper`] requests it, waits for the first timestamp, and keeps
//! timestamping enabled. For hardware timestamps, the module `nic` configures the device. Sockets,
//! control messages and the conversion are the same for software and hardware timestamps.
//!
//! Source: document 000, §2.6 and §3.1; Linux, Documentation/networking/timestamping.rst.

mod control;
mod conversion;
mod keeper;
mod nic;
mod source;

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _};

use nix::cmsg_space;
use nix::sys::socket::{
    MsgFlags, SockaddrStorage, TimestampingFlag, Timestamps, recvmsg, setsockopt, sockopt,
};

pub(crate) use conversion::{Conversion, Departure, StampClock};
pub use keeper::Keeper;
pub(crate) use keeper::Stamping;
pub(crate) use keeper::{clocks, devices};
pub use nic::DeviceClock;
pub use source::{PastStack, StampsBy};
pub(crate) use source::{Source, fits};

use control::{Found, parse};

/// Linux, include/uapi/linux/net_tstamp.h.
const OPT_ID_TCP: u32 = 1 << 16;

/// The layer that takes a socket's timestamps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Layer {
    /// The kernel, which uses the system clock.
    #[default]
    Software,
    /// The network device, which uses its own clock.
    Hardware,
}

/// A reusable buffer for ancillary data.
#[derive(Debug)]
pub struct Room {
    control: Vec<u8>,
    layer: Layer,
}

impl Room {
    /// Creates a buffer with more than enough room for the timestamp of a layer, the error message
    /// that carries it, and the address in that message.
    pub fn new(layer: Layer) -> Room {
        Room { control: cmsg_space!(Timestamps, [u8; 64], [u8; 64]), layer }
    }

    /// Calls `recvmsg`. Returns the number of bytes and the contents of the control messages.
    fn receive(
        &mut self,
        socket: &impl AsFd,
        bytes: &mut [u8],
        flags: MsgFlags,
    ) -> io::Result<(usize, Found)> {
        let mut parts = [IoSliceMut::new(bytes)];
        // The parser stops at the zeros after the data that this call writes.
        self.control.fill(0);
        let control = Some(&mut self.control[..]);
        let descriptor = socket.as_fd().as_raw_fd();
        let message = recvmsg::<SockaddrStorage>(descriptor, &mut parts, control, flags)?;
        let count = message.bytes;
        Ok((count, parse(&self.control, self.layer)))
    }
}

/// Enables timestamps on a socket: a UDP socket, or a connected TCP socket on which nothing has
/// been sent yet.
///
/// Returns the error that the system reports. Kernels before 6.2 ignore `OPT_ID_TCP` without an
/// error. In that case, timestamps may be matched to the wrong requests.
pub fn enable(socket: &impl AsFd, stream: bool, layer: Layer) -> io::Result<()> {
    use TimestampingFlag as Flag;
    let mut flags = Flag::SOF_TIMESTAMPING_OPT_ID | Flag::SOF_TIMESTAMPING_OPT_TSONLY;
    flags |= match layer {
        Layer::Software => {
            Flag::SOF_TIMESTAMPING_SOFTWARE
                | Flag::SOF_TIMESTAMPING_TX_SOFTWARE
                | Flag::SOF_TIMESTAMPING_RX_SOFTWARE
        }
        Layer::Hardware => {
            Flag::SOF_TIMESTAMPING_RAW_HARDWARE
                | Flag::SOF_TIMESTAMPING_TX_HARDWARE
                | Flag::SOF_TIMESTAMPING_RX_HARDWARE
        }
    };
    if stream {
        flags |= Flag::from_bits_retain(OPT_ID_TCP);
    }
    Ok(setsockopt(socket, sockopt::Timestamping, &flags)?)
}

/// Reads from a socket. Returns the number of bytes read, and the arrival time of the packet that
/// contained the last of them.
pub fn read(
    socket: &impl AsFd,
    bytes: &mut [u8],
    room: &mut Room,
) -> io::Result<(usize, Option<u64>)> {
    let (count, found) = room.receive(socket, bytes, MsgFlags::empty())?;
    Ok((count, found.stamp_ns))
}

/// Takes the timestamps of sent requests from the error queue, oldest first, until it is empty.
/// Calls `each` with a number and the time on the layer's clock, in nanoseconds. The number
/// identifies the datagram, or the request's last byte in the stream. Numbering starts at 0 when
/// timestamps are enabled. Times on the software clock are counted from 1970.
pub fn drain(
    socket: &impl AsFd,
    room: &mut Room,
    mut each: impl FnMut(u32, u64),
) -> io::Result<()> {
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    loop {
        let found = match room.receive(socket, &mut [0; 1], flags) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            received => received?.1,
        };
        if let (Some(number), Some(stamp_ns)) = (found.number, found.stamp_ns) {
            each(number, stamp_ns);
        }
    }
}

#[cfg(test)]
mod tests;
