//! The function on UDP sockets: a blocking read, then a write. The kernel does the busy polling
//! (`SO_BUSY_POLL`): a read polls the device until a packet arrives.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use super::LOOK;
use crate::frame::{PAYLOAD_BYTES, PORT};
use crate::processors::BUSY_POLL;
use crate::sys::busy_poll;
use crate::testbed::{FUNCTION_IN, FUNCTION_OUT, GENERATOR_IN};

pub(super) fn forward(busy: bool, stop: &AtomicBool, ready: &dyn Fn()) -> Result<()> {
    let from = UdpSocket::bind((FUNCTION_IN.address, PORT))?;
    let to = UdpSocket::bind((FUNCTION_OUT.address, PORT))?;
    to.connect((GENERATOR_IN.address, PORT))?;
    from.set_read_timeout(Some(LOOK))?;
    if busy {
        busy_poll(&from, BUSY_POLL)?;
    }
    ready();
    // Longer packets are not from our generator. They are truncated, and the generator ignores
    // them.
    let mut bytes = [0; PAYLOAD_BYTES + 1];
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

fn is_nothing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
