//! The network function: packets that arrive on wire one leave on wire two, addressed to the
//! generator.
//!
//! Two programs do the port forwarding of document 000, §3.2.2, and wait for packets in the usual
//! ways. The third function is a switch. It consists only of the tap: packets are sent back within
//! the kernel, and no process is woken. Like the hardware switch of Figure 3.2, it is the first
//! subject for all methods.

use std::fmt;
use std::hint;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use curtail_xdp::XdpSocket;

use crate::frame::{FRAME_BYTES, FRAMES, HEADER_BYTES, PAYLOAD_BYTES, PORT, header};
use crate::processors::{BUSY_POLL, Configuration, Processors};
use crate::sys::busy_poll;
use crate::testbed::{FUNCTION_IN, FUNCTION_OUT, GENERATOR_IN, Tap, Testbed};
use crate::worker::{self, Worker};

/// The interval at which a waiting function checks whether it should end.
const LOOK: Duration = Duration::from_millis(20);

/// The kinds of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// The kernel forwards packets immediately.
    Switch,
    /// A process with UDP sockets.
    Sockets,
    /// A process with AF_XDP sockets.
    Xdp,
}

impl Function {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Sockets => "sockets",
            Self::Xdp => "xdp",
        }
    }
}

/// A function, its system configuration, and whether an antagonist runs at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) function: Function,
    /// `None` for the switch, which is not a process.
    pub(crate) configuration: Option<Configuration>,
    pub(crate) antagonist: bool,
}

impl Subject {
    pub(crate) fn switch(antagonist: bool) -> Self {
        Self { function: Function::Switch, configuration: None, antagonist }
    }

    /// Returns a function in all configurations.
    pub(crate) fn all_of(function: Function, antagonist: bool) -> [Self; 4] {
        let of = |configuration| Self { function, configuration: Some(configuration), antagonist };
        Configuration::ALL.map(of)
    }

    /// Returns all subjects, those without an antagonist first, as in the figures.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for antagonist in [false, true] {
            all.push(Self::switch(antagonist));
            all.extend(Self::all_of(Function::Sockets, antagonist));
            all.extend(Self::all_of(Function::Xdp, antagonist));
        }
        all
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function.name())?;
        if let Some(configuration) = self.configuration {
            write!(f, ", {}", configuration.name())?;
        }
        if self.antagonist { f.write_str(", antagonist") } else { Ok(()) }
    }
}

/// A running subject, which ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    forwarder: Option<Worker>,
    antagonist: Option<Worker>,
    _tap: Arc<Tap>,
}

impl Running {
    /// Starts a subject. If it has an antagonist, the antagonist starts first, so that the function
    /// is disturbed from its start.
    pub(crate) fn start(
        testbed: &Arc<Testbed>,
        places: Processors,
        subject: Subject,
    ) -> Result<Self> {
        let antagonist = subject.antagonist.then(|| worker::antagonist(places)).transpose()?;
        let Some(configuration) = subject.configuration else {
            return Ok(Self { forwarder: None, antagonist, _tap: Arc::new(testbed.switch()?) });
        };
        let tap = Arc::new(testbed.tap_function()?);
        let (testbed, at) = (Arc::clone(testbed), Arc::clone(&tap));
        let forwarder = Worker::start("network function", move |stop, ready| {
            testbed.function.enter()?;
            places.be_function(configuration)?;
            let is_busy = configuration == Configuration::BusyPoll;
            match subject.function {
                Function::Xdp => forward_frames(&at, is_busy, stop, ready),
                _ => forward_packets(is_busy, stop, ready),
            }
        })?;
        Ok(Self { forwarder: Some(forwarder), antagonist, _tap: tap })
    }

    /// Ends the subject and returns its errors.
    pub(crate) fn end(mut self) -> Result<()> {
        let forwarder = self.forwarder.as_mut().map_or(Ok(()), Worker::end);
        forwarder.and(self.antagonist.as_mut().map_or(Ok(()), Worker::end))
    }
}

/// The function on AF_XDP: it passes frames from one device to the other with a new header. It
/// sleeps until the kernel has a frame, or it polls the ring.
fn forward_frames(tap: &Tap, is_busy: bool, stop: &AtomicBool, ready: &dyn Fn()) -> Result<()> {
    let mut from = XdpSocket::open(FUNCTION_IN.interface, FRAMES)?;
    let mut to = XdpSocket::open(FUNCTION_OUT.interface, FRAMES)?;
    tap.hand_to(from.as_fd())?;
    let mut frame = [0; FRAME_BYTES];
    frame[..HEADER_BYTES].copy_from_slice(&header(&FUNCTION_OUT, &GENERATOR_IN));
    ready();
    while !stop.load(Ordering::Relaxed) {
        to.push()?;
        let came = from.receive(|bytes| {
            let payload = bytes.get(HEADER_BYTES..FRAME_BYTES);
            payload.map(|payload| frame[HEADER_BYTES..].copy_from_slice(payload))
        })?;
        match came {
            Some(Some(())) => match to.send(&frame) {
                // The frame is dropped, as a switch with a full queue would do.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                sent => sent?,
            },
            Some(None) => {}
            None if is_busy => hint::spin_loop(),
            None => from.wait(LOOK)?,
        }
    }
    Ok(())
}

/// The function on UDP sockets: a blocking read, then a write. The kernel does the busy polling
/// (`SO_BUSY_POLL`): a read polls the device until a packet arrives.
fn forward_packets(is_busy: bool, stop: &AtomicBool, ready: &dyn Fn()) -> Result<()> {
    let from = UdpSocket::bind((FUNCTION_IN.address, PORT))?;
    let to = UdpSocket::bind((FUNCTION_OUT.address, PORT))?;
    to.connect((GENERATOR_IN.address, PORT))?;
    from.set_read_timeout(Some(LOOK))?;
    if is_busy {
        busy_poll(&from, BUSY_POLL)?;
    }
    ready();
    // Longer packets are not from our generator. They are truncated, and the generator ignores
    // them.
    let mut bytes = [0; PAYLOAD_BYTES + 1];
    let is_nothing =
        |kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted);
    while !stop.load(Ordering::Relaxed) {
        let count = match from.recv(&mut bytes) {
            Err(error) if is_nothing(error.kind()) => continue,
            count => count?,
        };
        match to.send(&bytes[..count]) {
            // Between two measurements, the generator has no socket that receives.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            sent => drop(sent?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_have_distinct_names() {
        let all = Subject::all();
        let mut names: Vec<String> = all.iter().map(Subject::to_string).collect();
        assert_eq!(names[0], "switch");
        assert!(names.contains(&"xdp, pinned+fifo+busy-poll, antagonist".to_owned()), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!((all.len(), names.len()), (18, 18));
    }
}
