//! Polls UDP sockets and takes the kernel's timestamps, with the code of `curtail load --stamps
//! kernel`.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;

use curtail_load::stamp::{Layer, Room, drain, enable, read};

use super::{open, or_lost, sockets};
use crate::frame::{PAYLOAD_BYTES, Payload};

pub(super) struct Port {
    out: UdpSocket,
    back: UdpSocket,
    room: Room,
    /// Our packet numbers, indexed by the kernel's numbers, which count sent packets.
    numbers: Vec<u32>,
}

impl Port {
    pub(super) fn open() -> io::Result<Self> {
        let (out, back) = sockets()?;
        back.set_nonblocking(true)?;
        enable(&out, false, Layer::Software)?;
        enable(&back, false, Layer::Software)?;
        Ok(Self { out, back, room: Room::new(Layer::Software), numbers: Vec::new() })
    }
}

impl open::Port for Port {
    fn send(&mut self, number: u32, payload: &[u8; PAYLOAD_BYTES]) -> io::Result<()> {
        self.numbers.push(number);
        or_lost(self.out.send(payload))
    }

    fn receive(&mut self) -> io::Result<Option<(Payload, Option<u64>)>> {
        let mut bytes = [0; PAYLOAD_BYTES];
        match read(&self.back, &mut bytes, &mut self.room) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            came => {
                let (count, stamp) = came?;
                Ok(Payload::read(&bytes[..count]).map(|payload| (payload, stamp)))
            }
        }
    }

    fn stamps(&self) -> bool {
        true
    }

    fn left(&mut self, each: &mut dyn FnMut(u32, u64)) -> io::Result<()> {
        let numbers = &self.numbers;
        drain(&self.out, &mut self.room, |number, realtime_ns| {
            if let Some(ours) = numbers.get(number as usize) {
                each(*ours, realtime_ns);
            }
        })
    }
}
