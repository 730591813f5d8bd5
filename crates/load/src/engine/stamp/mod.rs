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
//! Source: document 000, §2.6 and §3.1; Linux, Documentation/networking/timestamping.rst. The
//! control messages are `struct scm_timestamping` and `struct sock_extended_err` in
//! include/uapi/linux/errqueue.h.

mod conversion;
mod nic;
mod source;

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _};

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, TimestampingFlag, Timestamps, recvmsg,
    setsockopt, sockopt,
};
use nix::{cmsg_space, libc};

pub(crate) use conversion::{Conversion, Departure, StampClock};
pub use nic::DeviceClock;
pub use source::{Keeper, PastStack};
pub(crate) use source::{Source, Stamping, clocks, devices};

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
        let control = Some(&mut self.control[..]);
        let descriptor = socket.as_fd().as_raw_fd();
        let message = recvmsg::<SockaddrStorage>(descriptor, &mut parts, control, flags)?;
        let mut found = Found::default();
        // If the control messages do not fit, none of them is used.
        for of in message.cmsgs().into_iter().flatten() {
            match of {
                ControlMessageOwned::ScmTimestampsns(times) => {
                    found.stamp_ns = stamp_ns(&times, self.layer);
                }
                ControlMessageOwned::Ipv4RecvErr(sent, _)
                | ControlMessageOwned::Ipv6RecvErr(sent, _) => found.number = sent_number(&sent),
                _ => {}
            }
        }
        Ok((message.bytes, found))
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

const ORIGIN_TIMESTAMPING: u8 = 4;
const STAGE_SENT: u32 = 0;

/// The data from the control messages of one received message.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// The timestamp of the layer, in nanoseconds on its clock. `None` if the kernel reports zero,
    /// which means that this layer took no timestamp.
    stamp_ns: Option<u64>,
    /// The number of the sent packet to which the timestamp belongs.
    number: Option<u32>,
}

/// Returns the time that the layer recorded.
fn stamp_ns(times: &Timestamps, layer: Layer) -> Option<u64> {
    let time = match layer {
        Layer::Software => times.system,
        Layer::Hardware => times.hw_raw,
    };
    let ns = u64::try_from(time.tv_sec()).ok()?.checked_mul(1_000_000_000)?;
    let ns = ns.checked_add(u64::try_from(time.tv_nsec()).ok()?)?;
    (ns > 0).then_some(ns)
}

fn sent_number(sent: &libc::sock_extended_err) -> Option<u32> {
    let is_sent = sent.ee_origin == ORIGIN_TIMESTAMPING && sent.ee_info == STAGE_SENT;
    is_sent.then_some(sent.ee_data)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::Instant;

    use super::*;
    use nix::sys::time::TimeSpec;

    fn sent(socket: &impl AsFd, room: &mut Room) -> Vec<(u32, u64)> {
        let mut stamps = Vec::new();
        drain(socket, room, |number, at_ns| stamps.push((number, at_ns))).unwrap();
        stamps
    }

    #[test]
    fn datagrams_are_stamped_by_number_when_sent_and_when_received() {
        let _keeper = Keeper::new().unwrap();
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        enable(&near, false, Layer::Software).unwrap();
        let (mut room, epoch) = (Room::new(Layer::Software), Instant::now());
        let conversion = Conversion::new(StampClock::System, epoch);
        for number in 0..3 {
            near.send(b"request").unwrap();
            far.recv(&mut [0; 8]).unwrap();
            far.send(b"answer").unwrap();
            let stamps = sent(&near, &mut room);
            let [(of, left)] = stamps[..] else { panic!("{stamps:?}") };
            assert_eq!(of, number);
            let (bytes, received) = read(&near, &mut [0; 64], &mut room).unwrap();
            let received = received.expect("stamping is on");
            assert_eq!(bytes, 6);
            assert!(left <= received);
            let seen = epoch.elapsed().as_nanos() as u64;
            assert!(conversion.since_epoch_ns(received, 0, u64::MAX).unwrap() <= seen + 20_000);
        }
        assert_eq!(sent(&near, &mut room), []);
    }

    #[test]
    fn requests_in_a_stream_are_stamped_by_their_last_byte() {
        let _keeper = Keeper::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        enable(&near, true, Layer::Software).unwrap();
        let mut room = Room::new(Layer::Software);
        let mut offset = 0;
        for length in [5, 1, 900] {
            near.write_all(&vec![b'x'; length]).unwrap();
            far.read_exact(&mut vec![0; length]).unwrap();
            far.write_all(b"answer").unwrap();
            let (bytes, received) = read(&near, &mut [0; 64], &mut room).unwrap();
            offset += length as u32;
            let stamps = sent(&near, &mut room);
            assert!(matches!(stamps[..], [(last, _)] if last == offset - 1), "{stamps:?}");
            assert_eq!((bytes, received.is_some()), (6, true));
        }
        drop(far);
        assert_eq!(
            read(&near, &mut [0; 8], &mut room).unwrap(),
            (0, None),
            "the end has no timestamp"
        );
    }

    #[test]
    fn each_layer_reads_its_own_time_and_ignores_zero() {
        let both = |software: [i64; 2], hardware: [i64; 2]| {
            let [system, hw_trans, hw_raw] =
                [software, [0, 0], hardware].map(|[seconds, ns]| TimeSpec::new(seconds, ns));
            let times = Timestamps { system, hw_trans, hw_raw };
            [Layer::Software, Layer::Hardware].map(|layer| stamp_ns(&times, layer))
        };
        let (software, hardware) = (Some(5_000_000_007), Some(2_000_000_003));
        assert_eq!(both([5, 7], [0, 0]), [software, None]);
        assert_eq!(both([0, 0], [2, 3]), [None, hardware]);
        assert_eq!(both([5, 7], [2, 3]), [software, hardware]);
        assert_eq!(both([-1, 0], [i64::MAX, 0]), [None, None], "beyond any clock");
    }

    #[test]
    fn errors_and_other_stages_of_sending_have_no_number() {
        let number = |ee_origin, ee_info| {
            let (ee_errno, ee_type, ee_code, ee_pad, ee_data) = (0, 0, 0, 0, 41);
            let sent = libc::sock_extended_err {
                ee_errno,
                ee_origin,
                ee_type,
                ee_code,
                ee_pad,
                ee_info,
                ee_data,
            };
            sent_number(&sent)
        };
        assert_eq!(number(ORIGIN_TIMESTAMPING, STAGE_SENT), Some(41));
        assert_eq!((number(2, STAGE_SENT), number(ORIGIN_TIMESTAMPING, 1)), (None, None));
    }
}
