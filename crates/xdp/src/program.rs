//! BPF programs for a device, assembled instruction by instruction. The programs are so short that
//! no BPF compiler is needed. They check some bytes of a packet and pass any unexpected packet to
//! the network stack. Source: Linux, Documentation/bpf/standardization/instruction-set.rst.

use std::os::fd::RawFd;

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
/// [`Code::add_wide`].
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

/// A sequence of 8-byte instructions, each of which consists of an operation, registers, an offset
/// and a constant.
#[derive(Debug, Clone, Default)]
pub struct Code(Vec<u64>);

impl Code {
    /// Returns an empty sequence.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the instructions in the form that [`load`](crate::bpf::load) expects.
    pub fn instructions(&self) -> &[u64] {
        &self.0
    }

    /// Adds an instruction and returns its index.
    pub fn add(&mut self, operation: u8, to: u8, from: u8, offset: i16, constant: i32) -> usize {
        let [o0, o1] = offset.to_ne_bytes();
        let [c0, c1, c2, c3] = constant.to_ne_bytes();
        self.0.push(u64::from_ne_bytes([operation, from << 4 | to, o0, o1, c0, c1, c2, c3]));
        self.0.len() - 1
    }

    /// Adds the two instructions that load a 64-bit constant.
    pub fn add_wide(&mut self, to: u8, kind: u8, constant: u64) {
        self.add(LOAD_WIDE, to, kind, 0, constant as u32 as i32);
        self.add(0, 0, 0, 0, (constant >> 32) as u32 as i32);
    }

    /// Sets the target of an earlier jump to the next instruction.
    pub fn lead_here(&mut self, from: usize) {
        let offset = (self.0.len() - from - 1) as i16;
        let mut bytes = self.0[from].to_ne_bytes();
        bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
        self.0[from] = u64::from_ne_bytes(bytes);
    }
}

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
/// [`finish`](Program::finish).
#[derive(Debug)]
pub struct Program {
    /// The instructions that have been added. Callers can append instructions for which there is no
    /// method here.
    pub code: Code,
    others: Vec<usize>,
}

impl Program {
    /// Starts a program with the check that the kernel's verifier requires. Packets shorter than
    /// `bytes_min` are passed to the stack. The program may then load and store `bytes_min` bytes
    /// of every packet.
    pub fn on_packets_of(bytes_min: usize) -> Self {
        let mut program = Self { code: Code::new(), others: Vec::new() };
        let code = &mut program.code;
        code.add(MOVE, CONTEXT, 1, 0, 0);
        code.add(LOAD_32, PACKET, CONTEXT, CONTEXT_DATA, 0);
        code.add(LOAD_32, END, CONTEXT, CONTEXT_DATA_END, 0);
        program.leave_if_greater(bytes_min, |border| (border, END));
        program
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
        self.code.add(MOVE, BORDER, PACKET, 0, 0);
        self.code.add(ADD_CONSTANT, BORDER, 0, 0, bytes as i32);
        let (greater, than) = operands(BORDER);
        self.others.push(self.code.add(JUMP_IF_GREATER, greater, than, 0, 0));
    }

    /// Passes packets to the stack unless they have this value at an offset. `load` determines the
    /// width of the value.
    pub fn expect(&mut self, load: u8, at: i16, value: i32) {
        self.code.add(load, LOADED, PACKET, at, 0);
        self.expect_loaded(value);
    }

    /// Like [`expect`](Self::expect), for a value that other instructions loaded and perhaps
    /// changed.
    pub fn expect_loaded(&mut self, value: i32) {
        self.others.push(self.code.add(JUMP_IF_NOT, LOADED, 0, 0, value));
    }

    /// Redirects the packet to the map's socket for its queue, or to the stack if the map has none.
    pub fn redirect(&mut self, map: RawFd) {
        self.code.add_wide(1, MAP, u64::from(map as u32));
        self.code.add(LOAD_32, 2, CONTEXT, CONTEXT_QUEUE, 0);
        self.code.add(MOVE_CONSTANT, 3, 0, 0, PASS);
        self.code.add(CALL, 0, 0, 0, REDIRECT_MAP);
    }

    /// Ends the program with the result of the last call. All other packets are passed to the
    /// stack.
    pub fn finish(mut self) -> Code {
        self.code.add(EXIT, 0, 0, 0, 0);
        self.others.into_iter().for_each(|from| self.code.lead_here(from));
        self.code.add(MOVE_CONSTANT, 0, 0, 0, PASS);
        self.code.add(EXIT, 0, 0, 0, 0);
        self.code
    }
}
