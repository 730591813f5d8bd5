//! The taps: XDP programs that timestamp packets when they enter a device, and choose where the
//! packets go next.
//!
//! A tap inspects every packet that its device receives, before the network stack does so. It
//! passes packets that are not part of the experiment, such as ARP, to the stack. It writes the
//! time of the kernel's monotonic clock into the payload of our packets. These packets then go to
//! the device's AF_XDP socket, or to the stack if there is no such socket. In the switch, they
//! leave directly through another device.
//!
//! Cost: about 0.1 µs per packet. Source: Linux, include/uapi/linux/bpf.h.

use std::os::fd::RawFd;

use curtail_xdp::program::{
    CALL, LOAD_8, LOAD_16, MOVE_CONSTANT, PACKET, Program, STORE_32, STORE_64, STORE_CONSTANT_16,
    network,
};

use crate::frame::{FRAME_BYTES, HEADER_BYTES, PORT};

/// The numbers of the BPF helpers.
const KTIME_GET_NS: i32 = 5;
const REDIRECT: i32 = 23;

/// The destination of our packets.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Onward {
    /// The socket for the packet's queue, from a map of sockets. If the map has no socket, the
    /// packet goes to the stack.
    Socket { map: RawFd },
    /// Another device, with a new header.
    Device { index: u32, header: [u8; HEADER_BYTES] },
}

/// Returns a program that writes a timestamp at an offset in the payload.
pub(crate) fn tap(stamp_at: usize, onward: Onward) -> Vec<u64> {
    let stamp = (HEADER_BYTES + stamp_at) as i16;
    let mut program = Program::on_packets_of(FRAME_BYTES);
    // IPv4 without options, UDP, our port.
    program.expect(LOAD_16, 12, network(0x0800));
    program.expect(LOAD_8, 14, 0x45);
    program.expect(LOAD_8, 23, 17);
    program.expect(LOAD_16, 36, network(PORT));
    program.add(CALL, 0, 0, 0, KTIME_GET_NS);
    program.add(STORE_32, PACKET, 0, stamp, 0);
    match onward {
        Onward::Socket { map } => program.redirect(map),
        Onward::Device { index, header } => {
            let (words, rest) = header.as_chunks::<8>();
            for (i, word) in words.iter().enumerate() {
                program.add_wide(1, 0, u64::from_ne_bytes(*word));
                program.add(STORE_64, PACKET, 1, 8 * i as i16, 0);
            }
            let last = u16::from_ne_bytes([rest[0], rest[1]]);
            program.add(STORE_CONSTANT_16, PACKET, 0, 8 * words.len() as i16, i32::from(last));
            program.add(MOVE_CONSTANT, 1, 0, 0, index as i32);
            program.add(MOVE_CONSTANT, 2, 0, 0, 0);
            program.add(CALL, 0, 0, 0, REDIRECT);
        }
    }
    program.finish()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::os::fd::{AsFd as _, AsRawFd as _};

    use super::*;
    use crate::frame::{ARRIVED_AT, End, Payload, RETURNED_AT, header};
    use curtail_xdp::bpf::{Tested, load, map_of_sockets, test};

    const PASS: u32 = curtail_xdp::program::PASS as u32;
    const REDIRECTED: u32 = 4;

    const A: End = End { interface: "a", mac: [2; 6], address: Ipv4Addr::new(10, 0, 0, 1) };
    const B: End = End { interface: "b", mac: [3; 6], address: Ipv4Addr::new(10, 0, 0, 2) };

    fn packet() -> Vec<u8> {
        [&header(&A, &B)[..], &Payload::new(7, 42).bytes()].concat()
    }

    /// Runs a tap on a packet, or prints that the test is skipped and returns `None` if BPF
    /// programs are not permitted.
    fn run(stamp_at: usize, device: Option<u32>, packet: &[u8]) -> Option<Tested> {
        let map = match map_of_sockets() {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                println!("SKIPPED: BPF programs need root");
                return None;
            }
            map => map.expect("a kernel with AF_XDP"),
        };
        let onward = match device {
            Some(index) => Onward::Device { index, header: header(&B, &A) },
            None => Onward::Socket { map: map.as_raw_fd() },
        };
        let program = load("test", &tap(stamp_at, onward)).expect("the verifier accepts it");
        Some(test(program.as_fd(), packet).expect("it runs"))
    }

    #[test]
    fn our_packets_are_stamped_and_go_to_the_stack_without_a_socket() {
        let sent = packet();
        let Some(Tested { action, packet: first }) = run(ARRIVED_AT, None, &sent) else { return };
        assert_eq!(action, PASS);
        let Some(Tested { packet: second, .. }) = run(RETURNED_AT, None, &first) else { return };
        let read = Payload::read(&second[HEADER_BYTES..]).expect("a payload");
        assert_eq!((read.run, read.number), (7, 42));
        assert!((1..1_000_000_000).contains(&read.tapped_ns()), "{read:?}: separated by two runs");
        assert_eq!(second[..HEADER_BYTES], sent[..HEADER_BYTES], "headers are unchanged");
    }

    #[test]
    fn other_packets_are_unchanged() {
        let ours = packet();
        let changed = |at: usize| {
            let mut packet = ours.clone();
            packet[at] ^= 1;
            packet
        };
        // These are an ARP packet, a packet with IPv4 options, a TCP packet, a packet to another
        // port, and a frame that is too short.
        let others = [changed(13), changed(14), changed(23), changed(37), ours[..59].to_vec()];
        for other in others {
            let Some(Tested { action, packet }) = run(ARRIVED_AT, None, &other) else { return };
            assert_eq!((action, packet), (PASS, other));
        }
    }

    #[test]
    fn the_switch_sends_packets_back_under_its_header() {
        let Some(Tested { action, packet }) = run(ARRIVED_AT, Some(1), &packet()) else { return };
        assert_eq!(action, REDIRECTED);
        assert_eq!(packet[..HEADER_BYTES], header(&B, &A));
        assert_eq!(Payload::read(&packet[HEADER_BYTES..]).map(|of| of.number), Some(42));
    }
}
