//! Encodes and decodes UDP over IPv4 over Ethernet. Source: RFC 768, RFC 791, RFC 1071.

use std::net::SocketAddrV4;

/// The total length of the Ethernet, IPv4 and UDP headers.
pub(crate) const HEADER_BYTES: usize = 42;
pub(crate) const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
/// The maximum frame length in bytes, without the frame check sequence.
pub(crate) const FRAME_MAX: usize = ETHERNET_BYTES + 1_500;
/// The maximum payload length in bytes.
pub const PAYLOAD_MAX: usize = FRAME_MAX - HEADER_BYTES;
const UDP: u8 = 17;

#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerAddrs {
    pub(crate) from: SocketAddrV4,
    pub(crate) to: SocketAddrV4,
    pub(crate) from_mac: [u8; 6],
    /// The address of the next hop.
    pub(crate) to_mac: [u8; 6],
}

/// Writes a packet into an empty frame. The payload must have at most [`PAYLOAD_MAX`] bytes.
pub(crate) fn write(frame: &mut Vec<u8>, addrs: &PeerAddrs, payload: &[u8]) {
    let udp_bytes = (UDP_BYTES + payload.len()) as u16;
    frame.extend_from_slice(&addrs.to_mac);
    frame.extend_from_slice(&addrs.from_mac);
    frame.extend_from_slice(&[0x08, 0x00]);
    let mut ip = [0; IP_BYTES];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&(IP_BYTES as u16 + udp_bytes).to_be_bytes());
    // The flag "don't fragment", and a TTL of 64.
    ip[6..10].copy_from_slice(&[0x40, 0, 64, UDP]);
    ip[12..16].copy_from_slice(&addrs.from.ip().octets());
    ip[16..20].copy_from_slice(&addrs.to.ip().octets());
    let sum = checksum(sum(0, &ip));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend_from_slice(&ip);
    let mut udp = [0; UDP_BYTES];
    udp[..2].copy_from_slice(&addrs.from.port().to_be_bytes());
    udp[2..4].copy_from_slice(&addrs.to.port().to_be_bytes());
    udp[4..6].copy_from_slice(&udp_bytes.to_be_bytes());
    let sum = udp_sum(&ip, &udp, payload);
    // A checksum of zero would mean that there is no checksum.
    let sum = if sum == 0 { 0xffff } else { sum };
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    frame.extend_from_slice(&udp);
    frame.extend_from_slice(payload);
}

/// Returns the payload of a packet that passed the filter. The payload excludes the padding that
/// Ethernet adds to short packets. `None` if the lengths in the headers do not match the frame.
pub(crate) fn payload(frame: &[u8]) -> Option<&[u8]> {
    let length = frame.get(ETHERNET_BYTES + IP_BYTES + 4..)?.first_chunk().copied()?;
    let end = ETHERNET_BYTES + IP_BYTES + usize::from(u16::from_be_bytes(length));
    frame.get(HEADER_BYTES..end)
}

/// Returns the checksum over the pseudo-header (addresses, protocol, length) and the packet.
fn udp_sum(ip: &[u8; IP_BYTES], udp: &[u8; UDP_BYTES], payload: &[u8]) -> u16 {
    let length = u64::from(u16::from_be_bytes([udp[4], udp[5]]));
    checksum(sum(sum(sum(u64::from(UDP) + length, &ip[12..]), udp), payload))
}

/// Adds 16-bit words. If the number of bytes is odd, the last one is the high byte of a word.
fn sum(start: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let words = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum::<u64>();
    start + words + rest.first().map_or(0, |byte| u64::from(*byte) << 8)
}

fn checksum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn addrs() -> PeerAddrs {
        PeerAddrs {
            from: "10.0.0.1:4000".parse().unwrap(),
            to: "10.0.0.2:5000".parse().unwrap(),
            from_mac: [2; 6],
            to_mac: [3; 6],
        }
    }

    proptest! {
        #[test]
        fn hosts_accept_a_written_packet(bytes in prop::collection::vec(any::<u8>(), 0..1_472)) {
            let mut frame = Vec::new();
            write(&mut frame, &addrs(), &bytes);
            let (ip, udp) = (&frame[14..34], &frame[34..]);
            prop_assert_eq!(checksum(sum(0, ip)), 0, "the checksum of a valid header is zero");
            let length = udp.len() as u64;
            prop_assert_eq!(checksum(sum(17 + length + sum(0, &ip[12..]), udp)), 0);
            prop_assert_ne!([udp[6], udp[7]], [0, 0]);
            prop_assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), 20 + udp.len());
            // Ethernet pads frames to 60 bytes.
            frame.resize(frame.len().max(60), 0);
            prop_assert_eq!(payload(&frame), Some(&bytes[..]));
        }

        #[test]
        fn malformed_frames_do_not_panic(frame in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(read) = payload(&frame) {
                prop_assert!(read.len() <= frame.len());
            }
        }
    }
}
