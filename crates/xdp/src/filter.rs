//! The BPF program that runs on the device. It redirects the responses from one server to one port
//! to our socket.
//!
//! The machine's other traffic, such as remote logins, uses the same device. The program therefore
//! passes a packet to the stack unless it is certainly ours. For example, the stack receives
//! fragments, packets with IP options, and frames that are too long for our buffers. Cost: about
//! twenty instructions, or about 0.1 µs, for each packet that the device receives.

use std::net::SocketAddrV4;
use std::os::fd::RawFd;

use crate::frame::{FRAME_MAX, HEADER_BYTES};
use crate::program::{
    AND_CONSTANT, Code, LOAD_8, LOAD_16, LOAD_32, LOADED, PACKET, Program, network,
};

pub(crate) fn filter(server: SocketAddrV4, us: SocketAddrV4, map: RawFd) -> Code {
    let mut program = Program::on_packets_of(HEADER_BYTES);
    program.up_to(FRAME_MAX);
    // The values are in network byte order, as in the packet.
    let address = |of: SocketAddrV4| i32::from_ne_bytes(of.ip().octets());
    let ports = |from: SocketAddrV4, to: SocketAddrV4| {
        let ([a, b], [c, d]) = (from.port().to_be_bytes(), to.port().to_be_bytes());
        i32::from_ne_bytes([a, b, c, d])
    };
    program.expect(LOAD_16, 12, network(0x0800));
    // The packet must be UDP over IPv4, without IP options.
    program.expect(LOAD_8, 14, 0x45);
    program.expect(LOAD_8, 23, 17);
    program.expect(LOAD_32, 26, address(server));
    program.expect(LOAD_32, 30, address(us));
    program.expect(LOAD_32, 34, ports(server, us));
    // The packet must not be a fragment: neither the flag for more fragments nor a fragment offset
    // may be set.
    program.code.add(LOAD_16, LOADED, PACKET, 20, 0);
    program.code.add(AND_CONSTANT, LOADED, 0, 0, network(0x3fff));
    program.expect_loaded(0);
    program.redirect(map);
    program.finish()
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

    use super::*;
    use crate::bpf::{load, map_of_sockets, test};
    use crate::frame::{PeerAddrs, write};
    use crate::program::{MOVE_CONSTANT, PASS};

    const SERVER: &str = "10.200.0.1:60000";
    const US: &str = "192.168.255.2:40000";

    fn response(from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
        let addrs = PeerAddrs {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            from_mac: [2; 6],
            to_mac: [3; 6],
        };
        let mut frame = Vec::new();
        write(&mut frame, &addrs, payload);
        frame
    }

    /// Whether the program passes the packet to the stack because it is not ours. The map has no
    /// socket, so the program would also pass our packets to the stack. The test therefore changes
    /// the third argument of the redirect, so that the program drops our packets.
    fn is_left(packet: &[u8]) -> Option<bool> {
        let map: OwnedFd = match map_of_sockets() {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                println!("SKIPPED: BPF programs need root");
                return None;
            }
            map => map.expect("a kernel with AF_XDP"),
        };
        let (server, us) = (SERVER.parse().unwrap(), US.parse().unwrap());
        let code = filter(server, us, map.as_raw_fd());
        let whole = load("test", code.instructions()).expect("the verifier accepts it");
        assert_eq!(test(whole.as_fd(), packet).expect("it runs").action, PASS as u32);
        // Changes the action of a redirect without a socket from pass to drop.
        let mut changed = code.instructions().to_vec();
        let redirect = changed.len() - 5;
        changed[redirect] = {
            let mut drops = Code::new();
            drops.add(MOVE_CONSTANT, 3, 0, 0, 1);
            drops.instructions()[0]
        };
        let dropping = load("test", &changed).expect("the verifier accepts it");
        Some(test(dropping.as_fd(), packet).expect("it runs").action == PASS as u32)
    }

    #[test]
    fn responses_of_any_length_are_redirected() {
        for length in [0, 1, 18, 1_472] {
            let Some(left) = is_left(&response(SERVER, US, &vec![7; length])) else { return };
            assert!(!left, "{length} bytes");
        }
    }

    #[test]
    fn other_packets_are_passed_to_the_stack() {
        let ours = response(SERVER, US, &[7; 18]);
        let changed = |at: usize, bits: u8| {
            let mut packet = ours.clone();
            packet[at] ^= bits;
            packet
        };
        let others = [
            ("ARP", changed(13, 6)),
            ("IPv4 options", changed(14, 3)),
            ("TCP", changed(23, 17 ^ 6)),
            ("a first fragment", changed(20, 0x20)),
            ("a later fragment", changed(21, 1)),
            ("another server", response("10.200.0.3:60000", US, &[7; 18])),
            ("another port of the server", response("10.200.0.1:60001", US, &[7; 18])),
            ("another address of this machine", response(SERVER, "192.168.255.3:40000", &[7; 18])),
            ("another program on this machine", response(SERVER, "192.168.255.2:40001", &[7; 18])),
            ("too short", ours[..41].to_vec()),
            ("too long", response(SERVER, US, &[7; 1_473])),
        ];
        for (what, packet) in others {
            let Some(left) = is_left(&packet) else { return };
            assert!(left, "{what}");
        }
    }
}
