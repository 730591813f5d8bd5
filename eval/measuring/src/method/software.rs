//! Polls UDP sockets and takes the time from the program's clock.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;

use super::{open, or_lost, sockets};
use crate::frame::{PAYLOAD_BYTES, Payload};

pub(super) struct Port {
    out: UdpSocket,
    back: UdpSocket,
}

impl Port {
    pub(super) fn open() -> io::Result<Self> {
        let (out, back) = sockets()?;
        back.set_nonblocking(true)?;
        Ok(Self { out, back })
    }
}

impl open::Port for Port {
    fn send(&mut self, _: u32, payload: &[u8; PAYLOAD_BYTES]) -> io::Result<()> {
        or_lost(self.out.send(payload))
    }

    fn receive(&mut self) -> io::Result<Option<(Payload, Option<u64>)>> {
        let mut bytes = [0; PAYLOAD_BYTES];
        match self.back.recv(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            count => Ok(Payload::read(&bytes[..count?]).map(|payload| (payload, None))),
        }
    }
}
