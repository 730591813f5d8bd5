//! BPF programs for a device, assembled instruction by instruction. The programs are so short that
//! no BPF compiler is needed. They check some bytes of a packet and pass any unexpected packet to
//! the network stack. Source: Linux, Documentation/bpf/standardization/instruction-set.rst.

use std::net::SocketAddrV4;
use std::os::fd::RawFd;

use crate::frame::{FRAME_MAX, HEADER_BYTES};

/// `to = from`.
pub const MOVE: u8 = 0xbf;
/// `to = constant`.
pub const MOVE_CONSTANT: u8 = 0xb7;
/// `to += constant`.
pub const ADD_CONSTANT: u8 = 0x07;
/// `to &= constant`.
pub const AND_CONSTANT: u8 = 0x57;
/// `to = *(from + offset)`, 8 bits.
pub const LOAD_8: u8 = 0x71;
/// `to = *(from + offset)`, 16 bits.
pub const LOAD_16: u8 = 0x69;
/// `to = *(from + offset)`, 32 bits.
pub const LOAD_32: u8 = 0x61;
/// `to = constant`, 64 bits. The operation takes two instructions, as described at
/// [`Program::add_wide`].
pub const LOAD_WIDE: u8 = 0x18;
/// `*(to + offset) = constant`, 16 bits.
pub const STORE_CONSTANT_16: u8 = 0x6a;
/// `*(to + offset) = from`, 32 bits.
pub const STORE_32: u8 = 0x63;
/// `*(to + offset) = from`, 64 bits.
pub const STORE_64: u8 = 0x7b;
/// Jumps if `to > from`.
pub const JUMP_IF_GREATER: u8 = 0x2d;
/// Jumps if the low 32 bits of `to` are not `constant`.
pub const JUMP_IF_NOT: u8 = 0x56;
/// Calls the helper with the number `constant`.
pub const CALL: u8 = 0x85;
/// Ends the program.
pub const EXIT: u8 = 0x95;
/// The kind of a wide constant that contains a map's descriptor.
pub const MAP: u8 = 1;

/// The register that points to the start of the packet. Calls preserve it.
pub const PACKET: u8 = 7;
/// The register for loaded values.
pub const LOADED: u8 = 5;

/// The registers that point to the context and to the end of the packet. Calls preserve the first
/// of these registers. The second one is valid only until the first call.
const CONTEXT: u8 = 6;
const END: u8 = 3;

/// The offset of the packet's start in the context of an XDP program (`struct xdp_md`).
const CONTEXT_DATA: i16 = 0;
/// The offset of the packet's end in this context.
const CONTEXT_DATA_END: i16 = 4;
/// The offset of the packet's queue number in this context.
const CONTEXT_QUEUE: i16 = 16;

/// The return value that passes a packet to the stack (`XDP_PASS`).
pub const PASS: i32 = 2;
/// The helper that redirects a packet to an entry of a map.
const REDIRECT_MAP: i32 = 51;

/// Returns the number that a program sees when it loads this value from a packet. The bytes of
/// packets are in network order.
pub fn network(value: u16) -> i32 {
    i32::from(value.to_be())
}

/// A program under construction. Checks are added first, followed by actions and a call to
/// [`finish`](Program::finish). It is a sequence of 8-byte instructions, each of which consists of an
/// operation, registers, an offset and a constant.
#[derive(Debug, Default)]
pub struct Program {
    code: Vec<u64>,
    others: Vec<usize>,
}

impl Program {
    /// Starts a program with the check that the kernel's verifier requires. Packets shorter than
    /// `bytes_min` are passed to the stack. The program may then load and store `bytes_min` bytes
    /// of every packet.
    pub fn on_packets_of(bytes_min: usize) -> Self {
        let mut program = Self::default();
        program.add(MOVE, CONTEXT, 1, 0, 0);
        program.add(LOAD_32, PACKET, CONTEXT, CONTEXT_DATA, 0);
        program.add(LOAD_32, END, CONTEXT, CONTEXT_DATA_END, 0);
        program.leave_if_greater(bytes_min, |border| (border, END));
        program
    }

    /// Adds an instruction and returns its index.
    pub fn add(&mut self, operation: u8, to: u8, from: u8, offset: i16, constant: i32) -> usize {
        self.code.push(instruction(operation, to, from, offset, constant));
        self.code.len() - 1
    }

    /// Adds the two instructions that load a 64-bit constant.
    pub fn add_wide(&mut self, to: u8, kind: u8, constant: u64) {
        self.add(LOAD_WIDE, to, kind, 0, constant as u32 as i32);
        self.add(0, 0, 0, 0, (constant >> 32) as u32 as i32);
    }

    /// Passes packets longer than `bytes_max` to the stack. This method may be used only before the
    /// first call.
    pub fn up_to(&mut self, bytes_max: usize) {
        self.leave_if_greater(bytes_max, |border| (END, border));
    }

    /// Compares the packet's end with the position after `bytes` bytes. `operands` determines the
    /// order of the two positions. If the first position is greater, the program passes the packet
    /// to the stack.
    fn leave_if_greater(&mut self, bytes: usize, operands: fn(u8) -> (u8, u8)) {
        const BORDER: u8 = 4;
        self.add(MOVE, BORDER, PACKET, 0, 0);
        self.add(ADD_CONSTANT, BORDER, 0, 0, bytes as i32);
        let (greater, than) = operands(BORDER);
        let jump = self.add(JUMP_IF_GREATER, greater, than, 0, 0);
        self.others.push(jump);
    }

    /// Passes packets to the stack unless they have this value at an offset. `load` determines the
    /// width of the value.
    pub fn expect(&mut self, load: u8, at: i16, value: i32) {
        self.add(load, LOADED, PACKET, at, 0);
        self.expect_loaded(value);
    }

    /// Like [`expect`](Self::expect), for a value that other instructions loaded and perhaps
    /// changed.
    pub fn expect_loaded(&mut self, value: i32) {
        let jump = self.add(JUMP_IF_NOT, LOADED, 0, 0, value);
        self.others.push(jump);
    }

    /// Redirects the packet to the map's socket for its queue, or to the stack if the map has none.
    pub fn redirect(&mut self, map: RawFd) {
        self.add_wide(1, MAP, u64::from(map as u32));
        self.add(LOAD_32, 2, CONTEXT, CONTEXT_QUEUE, 0);
        self.add(MOVE_CONSTANT, 3, 0, 0, PASS);
        self.add(CALL, 0, 0, 0, REDIRECT_MAP);
    }

    /// Ends the program with the result of the last call. All other packets are passed to the
    /// stack. Returns the instructions.
    pub fn finish(mut self) -> Vec<u64> {
        self.add(EXIT, 0, 0, 0, 0);
        for from in std::mem::take(&mut self.others) {
            // The target of the jump is the next instruction.
            let offset = (self.code.len() - from - 1) as i16;
            let mut bytes = self.code[from].to_ne_bytes();
            bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
            self.code[from] = u64::from_ne_bytes(bytes);
        }
        self.add(MOVE_CONSTANT, 0, 0, 0, PASS);
        self.add(EXIT, 0, 0, 0, 0);
        self.code
    }
}

fn instruction(operation: u8, to: u8, from: u8, offset: i16, constant: i32) -> u64 {
    let [o0, o1] = offset.to_ne_bytes();
    let [c0, c1, c2, c3] = constant.to_ne_bytes();
    u64::from_ne_bytes([operation, from << 4 | to, o0, o1, c0, c1, c2, c3])
}

/// Returns the program that redirects the responses from one server to one port to our socket.
///
/// The machine's other traffic, such as remote logins, uses the same device. The program therefore
/// passes a packet to the stack unless it is certainly ours. For example, the stack receives
/// fragments, packets with IP options, and frames that are too long for our buffers. Cost: about
/// twenty instructions, or about 0.1 µs, for each packet that the device receives.
pub(crate) fn filter(server: SocketAddrV4, us: SocketAddrV4, map: RawFd) -> Vec<u64> {
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
    program.add(LOAD_16, LOADED, PACKET, 20, 0);
    program.add(AND_CONSTANT, LOADED, 0, 0, network(0x3fff));
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
        let whole = load("test", &code).expect("the verifier accepts it");
        assert_eq!(test(whole.as_fd(), packet).expect("it runs").action, PASS as u32);
        // Changes the action of a redirect without a socket from pass to drop.
        let mut changed = code.clone();
        let redirect = changed.len() - 5;
        changed[redirect] = instruction(MOVE_CONSTANT, 3, 0, 0, 1);
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
