//! The function on UDP sockets: a blocking read, then a write. Busy polling is the kernel's
//! (`SO_BUSY_POLL`): the read looks at the device until there is something.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use super::LOOK;
use crate::frame::{PAYLOAD_BYTES, PORT};
use crate::place::BUSY_POLL;
use crate::sys::busy_poll;
use crate::world::{FUNCTION_IN, FUNCTION_OUT, GENERATOR_IN};

pub(super) fn forward(busy: bool, stop: &AtomicBool, ready: &dyn Fn()) -> Result<()> {
    let from = UdpSocket::bind((FUNCTION_IN.address, PORT))?;
    let to = UdpSocket::bind((FUNCTION_OUT.address, PORT))?;
    to.connect((GENERATOR_IN.address, PORT))?;
    from.set_read_timeout(Some(LOOK))?;
    if busy {
        busy_poll(&from, BUSY_POLL)?;
    }
    ready();
    // Longer ones are none of ours: they are cut off, and the generator ignores them.
    let mut bytes = [0; PAYLOAD_BYTES + 1];
    while !stop.load(Ordering::Relaxed) {
        let count = match from.recv(&mut bytes) {
            Err(error) if is_nothing(error.kind()) => continue,
            count => count?,
        };
        match to.send(&bytes[..count]) {
            // Nobody listens there between two measurements.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            sent => drop(sent?),
        }
    }
    Ok(())
}

fn is_nothing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
