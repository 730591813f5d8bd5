//! The function on AF_XDP: it passes frames from one device to the other with a new header. It
//! sleeps until the kernel has a frame, or it polls the ring.

use std::hint;
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use curtail_xdp::XdpSocket;

use super::LOOK;
use crate::frame::{FRAME_BYTES, FRAMES, HEADER_BYTES, header};
use crate::testbed::{FUNCTION_IN, FUNCTION_OUT, GENERATOR_IN, Tap};

pub(super) fn forward(tap: &Tap, busy: bool, stop: &AtomicBool, ready: &dyn Fn()) -> Result<()> {
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
            None if busy => hint::spin_loop(),
            None => from.wait(LOOK)?,
        }
    }
    Ok(())
}
