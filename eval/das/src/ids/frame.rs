//! The packets: UDP over IPv4 over Ethernet. Each packet contains the number of its turn and its
//! own number.

use std::ops::Range;

/// The length of the payload, in bytes.
const PAYLOAD: usize = 800;
const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;
/// The offset of the payload.
const HEADERS: usize = ETHERNET + IP + UDP;
const SOURCE_PORT: Range<usize> = ETHERNET + IP..ETHERNET + IP + 2;
/// The number of flows, which differ in their source port.
const FLOWS: u32 = 1000;
/// The port on which the de-duplicator listens.
pub(crate) const PORT: u16 = 4000;
/// The number of bytes of a payload that `parse` reads.
pub(crate) const TAG: usize = 8;
/// The words that payloads consist of. The rules match pairs of them.
pub(crate) const WORDS: [&str; 24] = [
    "passwd", "shadow", "select", "union", "insert", "exec", "system", "eval", "script", "cookie",
    "admin", "root", "config", "backup", "token", "secret", "login", "upload", "shell", "wget",
    "curl", "chmod", "netcat", "driver",
];

/// The Ethernet address of the de-duplicator's device behind an instance.
pub(crate) fn mac(instance: u8) -> [u8; 6] {
    [2, 0, 0, 0, instance, 2]
}

/// A packet for an instance, without its number.
#[derive(Debug)]
pub(crate) struct Frame(Vec<u8>);

impl Frame {
    pub(crate) fn new(instance: u8) -> Self {
        let mut bytes = Vec::with_capacity(HEADERS + PAYLOAD);
        bytes.extend(mac(instance));
        bytes.extend([2, 0, 0, 0, instance, 1, 8, 0]);
        bytes.extend(ip_header([10, 78, instance, 1], [10, 78, instance, 2]));
        bytes.extend([0, 0]);
        bytes.extend(PORT.to_be_bytes());
        bytes.extend(((UDP + PAYLOAD) as u16).to_be_bytes());
        // The checksum is left out, because it would change with the number.
        bytes.extend([0, 0]);
        bytes.extend([0; TAG]);
        let mut state = 42_u32;
        while bytes.len() < HEADERS + PAYLOAD {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bytes.extend(WORDS[(state >> 16) as usize % WORDS.len()].as_bytes());
            bytes.push(b' ');
        }
        bytes.truncate(HEADERS + PAYLOAD);
        Self(bytes)
    }

    /// Sets the numbers and returns the bytes of the packet.
    pub(crate) fn number(&mut self, turn: u32, number: u32) -> &[u8] {
        let port = 10_000 + (number / 2 % FLOWS) as u16;
        self.0[SOURCE_PORT].copy_from_slice(&port.to_be_bytes());
        self.0[HEADERS..HEADERS + 4].copy_from_slice(&turn.to_be_bytes());
        self.0[HEADERS + 4..HEADERS + TAG].copy_from_slice(&number.to_be_bytes());
        &self.0
    }
}

/// Returns the turn and the number of a packet from its payload.
pub(crate) fn parse(payload: &[u8]) -> Option<(u32, u32)> {
    let (turn, rest) = payload.split_first_chunk()?;
    let (number, _) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*turn), u32::from_be_bytes(*number)))
}

fn ip_header(from: [u8; 4], to: [u8; 4]) -> [u8; IP] {
    let mut header = [0; IP];
    header[..2].copy_from_slice(&[0x45, 0]);
    header[2..4].copy_from_slice(&((IP + UDP + PAYLOAD) as u16).to_be_bytes());
    header[8..10].copy_from_slice(&[64, 17]);
    header[12..16].copy_from_slice(&from);
    header[16..].copy_from_slice(&to);
    let checksum = !sum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// The one's complement sum of RFC 1071.
fn sum(bytes: &[u8]) -> u16 {
    let total: u32 =
        bytes.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    (total % 0xffff) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_contain_their_numbers() {
        let mut frame = Frame::new(3);
        let bytes = frame.number(7, 70_000).to_vec();
        assert_eq!(bytes.len(), HEADERS + PAYLOAD);
        assert_eq!(parse(&bytes[HEADERS..]), Some((7, 70_000)));
        assert_eq!(parse(&bytes[..7]), None);
        assert_eq!(sum(&bytes[ETHERNET..ETHERNET + IP]), 0, "the checksum of the header holds");
    }

    #[test]
    fn both_nodes_get_all_flows() {
        let mut frame = Frame::new(0);
        let mut port = |number| frame.number(0, number)[SOURCE_PORT].to_vec();
        assert_eq!(port(0), port(1));
        assert_ne!(port(1), port(2));
        assert_eq!(port(0), port(2 * FLOWS));
    }
}
