//! The frames on the wires: 64 bytes of Ethernet (including the check sequence), as in document
//! 000, §3.2.2.
//!
//! The 18 bytes of payload contain the numbers of the run and of the packet, and room for two
//! timestamps, which the taps write on the way ([`program`](crate::program)). A timestamp is the
//! low 32 bits of a time in nanoseconds. Timestamps wrap after four seconds, and a packet counts as
//! lost long before that.

use std::net::Ipv4Addr;

/// Length without the check sequence, which programs never see.
pub(crate) const FRAME_BYTES: usize = 60;
/// Length of the Ethernet, IPv4 and UDP headers.
pub(crate) const HEADER_BYTES: usize = 42;
pub(crate) const PAYLOAD_BYTES: usize = FRAME_BYTES - HEADER_BYTES;
/// The number of frames of an AF_XDP socket in each direction. It is small, so that the frames stay
/// in the caches.
pub(crate) const FRAMES: u32 = 256;
/// The UDP port of all packets.
pub(crate) const PORT: u16 = 4803;
/// The offsets in the payload at which the taps write.
pub(crate) const ARRIVED_AT: usize = 6;
pub(crate) const RETURNED_AT: usize = 10;

/// An end of a wire.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) interface: &'static str,
    pub(crate) mac: [u8; 6],
    pub(crate) address: Ipv4Addr,
}

/// The content of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payload {
    pub(crate) run: u16,
    pub(crate) number: u32,
    arrived: u32,
    returned: u32,
}

impl Payload {
    /// Returns the payload of a packet to send.
    pub(crate) fn new(run: u16, number: u32) -> Self {
        Self { run, number, arrived: 0, returned: 0 }
    }

    pub(crate) fn bytes(self) -> [u8; PAYLOAD_BYTES] {
        let mut bytes = [0; PAYLOAD_BYTES];
        bytes[..2].copy_from_slice(&self.run.to_le_bytes());
        bytes[2..6].copy_from_slice(&self.number.to_le_bytes());
        bytes[ARRIVED_AT..ARRIVED_AT + 4].copy_from_slice(&self.arrived.to_le_bytes());
        bytes[RETURNED_AT..RETURNED_AT + 4].copy_from_slice(&self.returned.to_le_bytes());
        bytes
    }

    /// Parses a payload. `None` if the packet has another length, because it is then not ours.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; PAYLOAD_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        Some(Self {
            run: u16::from_le_bytes([bytes[0], bytes[1]]),
            number: word(2),
            arrived: word(ARRIVED_AT),
            returned: word(RETURNED_AT),
        })
    }

    /// Returns the time from the first tap to the second in nanoseconds.
    pub(crate) fn tapped_ns(self) -> u64 {
        u64::from(self.returned.wrapping_sub(self.arrived))
    }
}

/// Returns the headers of a packet from one end to another. The UDP checksum is left out, which
/// IPv4 allows, because the taps change the payload.
pub(crate) fn header(from: &End, to: &End) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..6].copy_from_slice(&to.mac);
    header[6..12].copy_from_slice(&from.mac);
    header[12..14].copy_from_slice(&[0x08, 0x00]);
    let ip = &mut header[14..34];
    let length = (FRAME_BYTES - 14) as u16;
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    // The flag "don't fragment", a TTL of 64, and the protocol UDP.
    ip[6..10].copy_from_slice(&[0x40, 0, 64, 17]);
    ip[12..16].copy_from_slice(&from.address.octets());
    ip[16..20].copy_from_slice(&to.address.octets());
    let sum = checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    header[34..36].copy_from_slice(&PORT.to_be_bytes());
    header[36..38].copy_from_slice(&PORT.to_be_bytes());
    header[38..40].copy_from_slice(&(length - 20).to_be_bytes());
    header
}

/// The ones' complement sum of IPv4 (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: End = End { interface: "a", mac: [2; 6], address: Ipv4Addr::new(10, 0, 0, 1) };
    const B: End = End { interface: "b", mac: [3; 6], address: Ipv4Addr::new(10, 0, 0, 2) };

    #[test]
    fn hosts_accept_the_header() {
        let header = header(&A, &B);
        assert_eq!(checksum(&header[14..34]), 0, "a sum over a valid header is zero");
        assert_eq!((&header[..6], &header[6..12]), (&[3; 6][..], &[2; 6][..]));
        assert_eq!(u16::from_be_bytes([header[16], header[17]]), 46);
        assert_eq!(u16::from_be_bytes([header[38], header[39]]), 26);
    }

    #[test]
    fn a_payload_is_read_as_it_was_written() {
        let mut sent = Payload::new(7, 123_456_789);
        (sent.arrived, sent.returned) = (u32::MAX - 9, 20);
        let read = Payload::read(&sent.bytes()).expect("it has the length");
        assert_eq!((read, read.tapped_ns()), (sent, 30), "stamps wrap around");
        assert_eq!(Payload::read(&[0; 17]), None);
    }
}
