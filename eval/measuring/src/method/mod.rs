//! How latency is measured: four generators, which send the same flow and take the time differently.
//!
//! | method | sends and receives | the time is that of | like |
//! |---|---|---|---|
//! | `blocking` | one packet at a time: a write, a read that sleeps | the program, before and after | netperf |
//! | `software` | open loop, and looks at the socket again and again | the program, before and after | `curtail load` |
//! | `kernel` | as `software` | the kernel: leaving to the device, coming from it | `curtail load --stamps kernel` |
//! | `xdp` | as `software`, past the network stack | the program, before and after | TRex |
//!
//! Source: document 000, §3.1 and Table 3.1. All run on the generator's processor.

mod blocking;
mod kernel;
mod open;
mod software;
mod xdp;

use std::fmt;
use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use curtail_load::stamp::Keeper;

use crate::frame::PORT;
use crate::place::Places;
use crate::slice::{Shots, Slice};
use crate::world::{FUNCTION_IN, GENERATOR_IN, GENERATOR_OUT, World};

/// A way to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Method {
    Blocking,
    Software,
    Kernel,
    Xdp,
}

impl Method {
    /// By ascending accuracy, as the labels of the thesis' figures are.
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

/// A flow at a constant rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) period_ns: u64,
    /// Packets, those of the warm-up included.
    pub(crate) packets: u32,
    pub(crate) warmup: u32,
}

/// What comes later than this is lost.
const PATIENCE: Duration = Duration::from_millis(200);

/// The clock of a run: nanoseconds since its start.
#[derive(Debug, Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn now_ns(self) -> u64 {
        // Before the start it is the start.
        u64::try_from(Instant::now().saturating_duration_since(self.0).as_nanos())
            .unwrap_or(u64::MAX)
    }
}

/// Sends a flow and measures it, from the generator's place. `run` is on every packet: late ones of
/// earlier runs are told by it.
pub(crate) fn measure(
    world: &World,
    places: Places,
    method: Method,
    (flow, run): (Flow, u16),
) -> Result<Slice> {
    // Stamping is switched on for the whole machine, by a task of its own: so before the
    // first packet.
    let keeper = (method == Method::Kernel).then(Keeper::new).transpose();
    let _keeper = keeper.context("cannot measure by the kernel's stamps")?;
    let work = || -> Result<Slice> {
        places.be_generator().context("the generator may not have its processor")?;
        let mut shots = Shots::new(flow);
        let took = match method {
            Method::Blocking => blocking::run(&mut shots, flow, run)?,
            Method::Software => open::run(&mut software::Port::open()?, &mut shots, flow, run)?,
            Method::Kernel => open::run(&mut kernel::Port::open()?, &mut shots, flow, run)?,
            Method::Xdp => {
                open::run(&mut xdp::Port::open(&world.returned)?, &mut shots, flow, run)?
            }
        };
        Ok(shots.finish(took))
    };
    world.generator.inside(work).with_context(|| format!("cannot measure by {method}"))
}

/// The sockets of the generator: where packets leave, and where they return.
fn sockets() -> io::Result<(UdpSocket, UdpSocket)> {
    let out = UdpSocket::bind((GENERATOR_OUT.address, PORT))?;
    out.connect((FUNCTION_IN.address, PORT))?;
    Ok((out, UdpSocket::bind((GENERATOR_IN.address, PORT))?))
}

/// A packet that is refused is lost: nobody takes it at the function, for the moment.
fn or_lost<T>(sent: io::Result<T>) -> io::Result<()> {
    match sent {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        sent => sent.map(drop),
    }
}
