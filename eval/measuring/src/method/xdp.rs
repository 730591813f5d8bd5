//! Sends frames past the network stack and takes the time from the program's clock.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;

use curtail_xdp::XdpSocket;

use super::open;
use crate::frame::{FRAME_BYTES, FRAMES, HEADER_BYTES, PAYLOAD_BYTES, Payload, header};
use crate::testbed::{FUNCTION_IN, GENERATOR_IN, GENERATOR_OUT, Tap};

pub(super) struct Port {
    out: XdpSocket,
    back: XdpSocket,
    frame: [u8; FRAME_BYTES],
}

impl Port {
    pub(super) fn open(returned: &Tap) -> io::Result<Self> {
        let out = XdpSocket::open(GENERATOR_OUT.interface, FRAMES)?;
        let back = XdpSocket::open(GENERATOR_IN.interface, FRAMES)?;
        returned.hand_to(back.as_fd())?;
        let mut frame = [0; FRAME_BYTES];
        frame[..HEADER_BYTES].copy_from_slice(&header(&GENERATOR_OUT, &FUNCTION_IN));
        Ok(Self { out, back, frame })
    }
}

impl open::Port for Port {
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
