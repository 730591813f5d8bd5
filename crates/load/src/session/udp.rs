//! UDP echo: each datagram begins with an 8-byte big-endian sequence number, and the server sends
//! the datagram back. Many datagrams may be outstanding at the same time. Late and duplicate
//! responses are ignored, and lost ones time out.
//!
//! Sequence numbers are unique within a run. With AF_XDP, one port serves all connections in
//! succession, so a response to an earlier connection may arrive on a later one.
//!
//! Between session and socket, a 4-byte little-endian length precedes each datagram. It preserves
//! datagram boundaries in the byte stream.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf as _, BufMut as _, BytesMut};

use crate::session::fault::Fault;
use crate::session::{Out, Session, Sessions, Status, Token, Whole};

pub(super) const OUTSTANDING_MAX: usize = 1 << 16;
const NUMBER_BYTES: usize = 8;
/// The size of the length prefix.
pub(crate) const LENGTH_BYTES: usize = 4;

pub(crate) struct Udp {
    sessions: Arc<Sessions>,
    next: u64,
    outstanding: HashMap<u64, Token>,
    numbers: Vec<u64>,
}

impl Udp {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Udp {
        // Leaves 2³² sequence numbers for each session, which are enough for an hour at a million
        // requests per second.
        let next = sessions.begun.fetch_add(1, Ordering::Relaxed) << 32;
        Udp { sessions, next, outstanding: HashMap::new(), numbers: Vec::new() }
    }
}

impl Session for Udp {
    fn capacity(&self) -> usize {
        self.sessions.datagrams_max - self.outstanding.len()
    }

    fn send(&mut self, query: usize, token: Token, out: &mut Out) {
        assert!(self.capacity() > 0, "within capacity");
        let filler = self.sessions.rendered(query);
        out.bytes.put_u32_le((NUMBER_BYTES + filler.len()) as u32);
        out.bytes.put_u64(self.next);
        out.bytes.put_slice(filler);
        self.outstanding.insert(self.next, token);
        let at = token as usize;
        if at >= self.numbers.len() {
            self.numbers.resize(at + 1, 0);
        }
        self.numbers[at] = self.next;
        self.next += 1;
    }

    fn receive(&mut self, input: &mut BytesMut, out: &mut Out) -> Result<(), Fault> {
        while input.len() >= LENGTH_BYTES {
            let length = (&input[..LENGTH_BYTES]).get_u32_le() as usize;
            if input.len() - LENGTH_BYTES < length {
                break;
            }
            input.advance(LENGTH_BYTES);
            let datagram = input.split_to(length);
            let Some(number) = datagram.get(..NUMBER_BYTES) else { continue };
            // This is a late, duplicate or foreign datagram.
            let Some(token) = self.outstanding.remove(&{ number }.get_u64()) else { continue };
            let whole = Whole::new(Status::Fine, length as u64);
            out.reply(token, Ok(whole));
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Out) -> Fault {
        Fault::Closed
    }

    fn abandon(&mut self, token: Token, _: &mut Out) -> bool {
        if let Some(number) = self.numbers.get(token as usize) {
            self.outstanding.remove(number);
        }
        true
    }

    fn reusable(&self) -> bool {
        true
    }
}
