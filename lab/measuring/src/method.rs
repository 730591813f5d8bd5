//! The methods of measuring latency: four generators that send the same flow and take the time
//! differently.
//!
//! | method | sends and receives | clock | similar to |
//! |---|---|---|---|
//! | `blocking` | one packet at a time: a write, a sleeping read | the program's | netperf |
//! | `software` | open loop, and polls the socket | the program's | `curtail load` |
//! | `kernel` | as `software` | the kernel's, at the device | `curtail load --stamps kernel` |
//! | `xdp` | as `software`, but bypasses the network stack | the program's | TRex |
//!
//! The program reads its clock before it sends and after it receives. The kernel takes timestamps
//! when it passes a packet to the device and when it receives one from the device.
//!
//! Source: document 000, §3.1 and Table 3.1. All run on the generator's processor.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use curtail_load::stamp::{Keeper, Layer, Room, drain, enable, read};
use curtail_xdp::XdpSocket;

use crate::flow::{Flow, Shots, Slice};
use crate::frame::{FRAME_BYTES, FRAMES, HEADER_BYTES, PAYLOAD_BYTES, PORT, Payload, header};
use crate::processors::Processors;
use crate::testbed::{FUNCTION_IN, GENERATOR_IN, GENERATOR_OUT, Tap, Testbed};

/// A packet that has not returned after this time is lost.
const LOSS_TIMEOUT: Duration = Duration::from_millis(200);
/// If more packets than this are in flight, the timestamps of sent packets are fetched even if no
/// packet came back, because the kernel keeps only a few hundred.
const UNDER_WAY_MAX: u64 = 8;

/// A method of measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Blocking,
    Software,
    Kernel,
    Xdp,
}

impl Method {
    /// The methods by ascending accuracy, in the order of the labels in the thesis' figures.
    pub(crate) const ALL: [Self; 4] = [Self::Blocking, Self::Software, Self::Xdp, Self::Kernel];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Software => "software",
            Self::Kernel => "kernel",
            Self::Xdp => "xdp",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Sends a flow from the generator and measures it.
pub(crate) fn measure(
    testbed: &Testbed,
    places: Processors,
    method: Method,
    flow: Flow,
) -> Result<Slice> {
    // A separate task switches timestamping on for the whole machine. It must have done so before
    // the first packet is sent.
    let keeper = (method == Method::Kernel).then(Keeper::new).transpose();
    let _keeper = keeper.context("cannot measure with the kernel's timestamps")?;
    let work = || -> Result<Slice> {
        places.be_generator().context("the generator may not run on its processor")?;
        let mut shots = Shots::new(flow);
        let took = match method {
            Method::Blocking => blocking(&mut shots, flow)?,
            Method::Software => polling(&mut Sockets::open(false)?, &mut shots, flow)?,
            Method::Kernel => polling(&mut Sockets::open(true)?, &mut shots, flow)?,
            Method::Xdp => polling(&mut Frames::open(&testbed.returned)?, &mut shots, flow)?,
        };
        Ok(shots.finish(took))
    };
    let slice = testbed.generator.inside(work);
    slice.with_context(|| format!("cannot measure with the method {method}"))
}

/// The clock of a run: nanoseconds since its start.
#[derive(Debug, Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn now_ns(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Sends one packet at a time through sockets that sleep, like netperf's request-response test with
/// a time between packets.
///
/// Nothing is sent while a response is outstanding, so packets that become due in that time are
/// never sent. The rate falls, and the slowest times are measured least often. This is a property
/// of the method.
fn blocking(shots: &mut Shots, flow: Flow) -> io::Result<Duration> {
    let Sockets { out, back, .. } = Sockets::open(false)?;
    back.set_nonblocking(false)?;
    back.set_read_timeout(Some(LOSS_TIMEOUT))?;
    let clock = Clock(Instant::now());
    let mut number = 0;
    while number < flow.packets {
        let now_ns = clock.now_ns();
        let due_ns = u64::from(number) * flow.period_ns;
        if due_ns > now_ns {
            thread::sleep(Duration::from_nanos(due_ns - now_ns));
        } else if now_ns - due_ns >= flow.period_ns {
            // Continue with the next packet that is not overdue.
            number = u32::try_from(now_ns.div_ceil(flow.period_ns)).unwrap_or(u32::MAX);
            continue;
        }
        let sent_ns = clock.now_ns();
        or_lost(out.send(&Payload::new(flow.run, number).bytes()))?;
        shots.sent(number, Some(sent_ns));
        let mut bytes = [0; PAYLOAD_BYTES];
        loop {
            match back.recv(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    break;
                }
                count => count?,
            };
            let came_ns = clock.now_ns();
            // Any other packet was sent earlier and is late.
            let ours = |payload: &Payload| (payload.run, payload.number) == (flow.run, number);
            if let Some(payload) = Payload::read(&bytes).filter(ours) {
                shots.came(payload, Some(came_ns));
                break;
            }
        }
        number += 1;
    }
    Ok(clock.0.elapsed())
}

/// What a generator that never sleeps sends and receives through.
trait Port {
    /// Sends the packet with this number.
    fn send(&mut self, number: u32, payload: &[u8; PAYLOAD_BYTES]) -> io::Result<()>;

    /// Returns a packet if one came back, with the kernel's timestamp if it was requested.
    fn receive(&mut self) -> io::Result<Option<(Payload, Option<u64>)>>;

    /// Whether the kernel's timestamps are used instead of the program's.
    fn stamps(&self) -> bool {
        false
    }

    /// Records the kernel's timestamps of sent packets.
    fn left(&mut self, _: &mut Shots) -> io::Result<()> {
        Ok(())
    }
}

/// Sends packets that are due and polls for returned ones.
///
/// The flow has a constant rate. If the loop is delayed for longer than a period, the packets that
/// became due in the meantime are skipped. If they were sent in a burst, they would wait for each
/// other.
fn polling(port: &mut impl Port, shots: &mut Shots, flow: Flow) -> io::Result<Duration> {
    let clock = Clock(Instant::now());
    let mut number = 0;
    while number < flow.packets {
        let now_ns = clock.now_ns();
        let due_ns = u64::from(number) * flow.period_ns;
        if now_ns >= due_ns + flow.period_ns {
            number = u32::try_from(now_ns / flow.period_ns).unwrap_or(u32::MAX);
        } else if now_ns >= due_ns {
            let payload = Payload::new(flow.run, number).bytes();
            let sent_ns = clock.now_ns();
            port.send(number, &payload)?;
            shots.sent(number, (!port.stamps()).then_some(sent_ns));
            number += 1;
            if shots.under_way() > UNDER_WAY_MAX {
                port.left(shots)?;
            }
        }
        look(port, shots, flow, clock)?;
    }
    let took = clock.0.elapsed();
    while shots.under_way() > 0 && clock.0.elapsed() < took + LOSS_TIMEOUT {
        look(port, shots, flow, clock)?;
    }
    Ok(took)
}

fn look(port: &mut impl Port, shots: &mut Shots, flow: Flow, clock: Clock) -> io::Result<()> {
    let Some((payload, stamp_ns)) = port.receive()? else { return Ok(()) };
    let came_ns = clock.now_ns();
    if payload.run == flow.run {
        shots.came(payload, if port.stamps() { stamp_ns } else { Some(came_ns) });
        port.left(shots)?;
    }
    Ok(())
}

/// UDP sockets: the one that sends packets and the one that receives them. The kernel takes
/// timestamps with the code of `curtail load --stamps kernel`.
struct Sockets {
    out: UdpSocket,
    back: UdpSocket,
    stamps: Option<Room>,
    /// Our packet numbers, indexed by the kernel's numbers, which count sent packets.
    numbers: Vec<u32>,
}

impl Sockets {
    fn open(stamps: bool) -> io::Result<Self> {
        let out = UdpSocket::bind((GENERATOR_OUT.address, PORT))?;
        out.connect((FUNCTION_IN.address, PORT))?;
        let back = UdpSocket::bind((GENERATOR_IN.address, PORT))?;
        back.set_nonblocking(true)?;
        for socket in [&out, &back].into_iter().filter(|_| stamps) {
            enable(socket, false, Layer::Software)?;
        }
        let stamps = stamps.then(|| Room::new(Layer::Software));
        Ok(Self { out, back, stamps, numbers: Vec::new() })
    }
}

impl Port for Sockets {
    fn send(&mut self, number: u32, payload: &[u8; PAYLOAD_BYTES]) -> io::Result<()> {
        self.numbers.push(number);
        or_lost(self.out.send(payload))
    }

    fn receive(&mut self) -> io::Result<Option<(Payload, Option<u64>)>> {
        let mut bytes = [0; PAYLOAD_BYTES];
        let came = match &mut self.stamps {
            Some(room) => read(&self.back, &mut bytes, room),
            None => self.back.recv(&mut bytes).map(|count| (count, None)),
        };
        match came {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            came => {
                let (count, stamp_ns) = came?;
                Ok(Payload::read(&bytes[..count]).map(|payload| (payload, stamp_ns)))
            }
        }
    }

    fn stamps(&self) -> bool {
        self.stamps.is_some()
    }

    fn left(&mut self, shots: &mut Shots) -> io::Result<()> {
        let Some(room) = &mut self.stamps else { return Ok(()) };
        drain(&self.out, room, |number, realtime_ns| {
            if let Some(ours) = self.numbers.get(number as usize) {
                shots.left(*ours, realtime_ns);
            }
        })
    }
}

/// Treats a refused packet as lost: at that moment, the function has no socket that receives.
fn or_lost<T>(sent: io::Result<T>) -> io::Result<()> {
    match sent {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        sent => sent.map(drop),
    }
}

/// AF_XDP sockets, which send frames past the network stack.
struct Frames {
    out: XdpSocket,
    back: XdpSocket,
    frame: [u8; FRAME_BYTES],
}

impl Frames {
    fn open(returned: &Tap) -> io::Result<Self> {
        let out = XdpSocket::open(GENERATOR_OUT.interface, FRAMES)?;
        let back = XdpSocket::open(GENERATOR_IN.interface, FRAMES)?;
        returned.hand_to(back.as_fd())?;
        let mut frame = [0; FRAME_BYTES];
        frame[..HEADER_BYTES].copy_from_slice(&header(&GENERATOR_OUT, &FUNCTION_IN));
        Ok(Self { out, back, frame })
    }
}

impl Port for Frames {
    fn send(&mut self, _: u32, payload: &[u8; PAYLOAD_BYTES]) -> io::Result<()> {
        self.frame[HEADER_BYTES..].copy_from_slice(payload);
        match self.out.send(&self.frame) {
            // The packet is lost and is counted as lost.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            sent => sent,
        }
    }

    fn receive(&mut self) -> io::Result<Option<(Payload, Option<u64>)>> {
        self.out.push()?;
        let read = |frame: &[u8]| frame.get(HEADER_BYTES..).and_then(Payload::read);
        Ok(self.back.receive(read)?.flatten().map(|payload| (payload, None)))
    }
}
