//! The taps: XDP programs that timestamp packets when they enter a device, and choose where the
//! packets go next. They are compiled from `bpf/tap.bpf.c`.

use std::io;

use curtail_xdp::program::{EbpfLoader, Redirect};

use crate::frame::{HEADER_BYTES, PORT};

static TAP: &[u8] = curtail_xdp::include_bytes_aligned!("../bpf/tap.bpf.o");

/// Another device to which our packets go, with a new header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Onward {
    pub(crate) index: u32,
    pub(crate) header: [u8; HEADER_BYTES],
}

/// Loads a program that writes a timestamp at an offset in the payload. Without another device, our
/// packets go to the socket for their queue. If there is no socket, they go to the stack.
pub(crate) fn tap(stamp_at: usize, onward: Option<Onward>) -> io::Result<Redirect> {
    let (stamp_at, none) = (stamp_at as u32, Onward { index: 0, header: [0; HEADER_BYTES] });
    let Onward { index, header } = onward.unwrap_or(none);
    let mut loader = EbpfLoader::new();
    loader
        .override_global("port", &PORT, true)
        .override_global("stamp_at", &stamp_at, true)
        .override_global("next", &index, true)
        .override_global("next_header", &header, true);
    Redirect::load(&mut loader, TAP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{ARRIVED_AT, End, Payload, RETURNED_AT, header};
    use curtail_xdp::program::{PASS, Tested};
    use std::net::Ipv4Addr;

    const REDIRECTED: u32 = 4;

    const A: End = End { interface: "a", mac: [2; 6], address: Ipv4Addr::new(10, 0, 0, 1) };
    const B: End = End { interface: "b", mac: [3; 6], address: Ipv4Addr::new(10, 0, 0, 2) };

    fn packet() -> Vec<u8> {
        [&header(&A, &B)[..], &Payload::new(7, 42).bytes()].concat()
    }

    /// Runs a tap on a packet, or prints that the test is skipped and returns `None` if BPF
    /// programs are not permitted.
    fn run(stamp_at: usize, device: Option<u32>, packet: &[u8]) -> Option<Tested> {
        let onward = device.map(|index| Onward { index, header: header(&B, &A) });
        let mut tap = match tap(stamp_at, onward) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                println!("SKIPPED: BPF programs need root");
                return None;
            }
            loaded => loaded.expect("a kernel with AF_XDP, whose verifier accepts it"),
        };
        Some(tap.test(packet).expect("it runs"))
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
