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
use crate::processors::Processors;
use crate::slice::{Shots, Slice};
use crate::testbed::{FUNCTION_IN, GENERATOR_IN, GENERATOR_OUT, Testbed};

/// A method of measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// A flow at a constant rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) period_ns: u64,
    /// The number of packets, including those of the warm-up.
    pub(crate) packets: u32,
    pub(crate) warmup: u32,
}

/// A packet that has not returned after this time is lost.
const LOSS_TIMEOUT: Duration = Duration::from_millis(200);

/// The clock of a run: nanoseconds since its start.
#[derive(Debug, Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn now_ns(self) -> u64 {
        // A time before the start counts as the start.
        u64::try_from(Instant::now().saturating_duration_since(self.0).as_nanos())
            .unwrap_or(u64::MAX)
    }
}

/// Sends a flow from the generator and measures it. Every packet contains `run`, which identifies
/// late packets of earlier runs.
pub(crate) fn measure(
    testbed: &Testbed,
    places: Processors,
    method: Method,
    (flow, run): (Flow, u16),
) -> Result<Slice> {
    // A separate task switches timestamping on for the whole machine. It must have done so before
    // the first packet is sent.
    let keeper = (method == Method::Kernel).then(Keeper::new).transpose();
    let _keeper = keeper.context("cannot measure with the kernel's timestamps")?;
    let work = || -> Result<Slice> {
        places.be_generator().context("the generator may not run on its processor")?;
        let mut shots = Shots::new(flow);
        let took = match method {
            Method::Blocking => blocking::run(&mut shots, flow, run)?,
            Method::Software => open::run(&mut software::Port::open()?, &mut shots, flow, run)?,
            Method::Kernel => open::run(&mut kernel::Port::open()?, &mut shots, flow, run)?,
            Method::Xdp => {
                open::run(&mut xdp::Port::open(&testbed.returned)?, &mut shots, flow, run)?
            }
        };
        Ok(shots.finish(took))
    };
    testbed
        .generator
        .inside(work)
        .with_context(|| format!("cannot measure with the method {method}"))
}

/// Returns the generator's sockets: the one that sends packets and the one that receives them.
fn sockets() -> io::Result<(UdpSocket, UdpSocket)> {
    let out = UdpSocket::bind((GENERATOR_OUT.address, PORT))?;
    out.connect((FUNCTION_IN.address, PORT))?;
    Ok((out, UdpSocket::bind((GENERATOR_IN.address, PORT))?))
}

/// Treats a refused packet as lost: at that moment, the function has no socket that receives.
fn or_lost<T>(sent: io::Result<T>) -> io::Result<()> {
    match sent {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        sent => sent.map(drop),
    }
}
