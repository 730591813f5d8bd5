//! BPF programs for a device, assembled instruction by instruction: they are so short that no BPF compiler is
//! needed. They check some bytes of a packet, and leave the unexpected to the network stack. Source: Linux,
//! Documentation/bpf/standardization/instruction-set.rst.

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
/// The same, 16 bits.
pub const LOAD_16: u8 = 0x69;
/// The same, 32 bits.
pub const LOAD_32: u8 = 0x61;
/// `to = constant`, 64 bits, which takes two instructions: see [`Code::add_wide`].
pub const LOAD_WIDE: u8 = 0x18;
/// `*(to + offset) = constant`, 16 bits.
pub const STORE_CONSTANT_16: u8 = 0x6a;
/// `*(to + offset) = from`, 32 bits.
pub const STORE_32: u8 = 0x63;
/// The same, 64 bits.
pub const STORE_64: u8 = 0x7b;
/// Jumps if `to > from`.
pub const JUMP_IF_GREATER: u8 = 0x2d;
/// Jumps if the low 32 bits of `to` are not `constant`.
pub const JUMP_IF_NOT: u8 = 0x56;
/// Calls the helper whose number is `constant`.
pub const CALL: u8 = 0x85;
/// Ends the program.
pub const EXIT: u8 = 0x95;
/// The kind of a wide constant that is the descriptor of a map.
pub const MAP: u8 = 1;

/// Instructions of 8 bytes: operation, registers, offset, constant.
#[derive(Debug, Clone, Default)]
pub struct Code(Vec<u64>);

impl Code {
    /// No instruction.
    pub fn new() -> Self {
        Self::default()
    }

    /// The instructions, as [`load`](crate::bpf::load) takes them.
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

    /// Loads a constant of 64 bits, which takes two instructions.
    pub fn add_wide(&mut self, to: u8, kind: u8, constant: u64) {
        self.add(LOAD_WIDE, to, kind, 0, constant as u32 as i32);
        self.add(0, 0, 0, 0, (constant >> 32) as u32 as i32);
    }

    /// Sets the target of an earlier jump to here.
    pub fn lead_here(&mut self, from: usize) {
        let offset = (self.0.len() - from - 1) as i16;
        let mut bytes = self.0[from].to_ne_bytes();
        bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
        self.0[from] = u64::from_ne_bytes(bytes);
    }
}

/// The register with the start of the packet; calls preserve it.
pub const PACKET: u8 = 7;
/// The register for loaded values.
pub const LOADED: u8 = 5;

/// Registers: the context, which calls preserve as well, and the end of the packet, until the first call.
const CONTEXT: u8 = 6;
const END: u8 = 3;

/// The offset of the packet's start in the context of an XDP program (`struct xdp_md`).
const CONTEXT_DATA: i16 = 0;
/// The offset of its end.
const CONTEXT_DATA_END: i16 = 4;
/// The offset of its queue.
const CONTEXT_QUEUE: i16 = 16;

/// The return value that passes a packet to the stack (`XDP_PASS`).
pub const PASS: i32 = 2;
/// The helper that redirects a packet to the entry of a map.
const REDIRECT_MAP: i32 = 51;

/// A value as a program loads it from a packet, whose bytes are in network order.
pub fn network(value: u16) -> i32 {
    i32::from(value.to_be())
}

/// A program under construction: first what it expects, then what it does, then [`finish`](Program::finish).
#[derive(Debug)]
pub struct Program {
    /// For instructions without a method here.
    pub code: Code,
    others: Vec<usize>,
}

impl Program {
    /// Begins with the check that the kernel's verifier requires: shorter packets are left to the stack, so
    /// the program may load and store `bytes_min` bytes of all others.
    pub fn on_packets_of(bytes_min: usize) -> Self {
        let mut program = Self { code: Code::new(), others: Vec::new() };
        let code = &mut program.code;
        code.add(MOVE, CONTEXT, 1, 0, 0);
        code.add(LOAD_32, PACKET, CONTEXT, CONTEXT_DATA, 0);
        code.add(LOAD_32, END, CONTEXT, CONTEXT_DATA_END, 0);
        program.leave_if_greater(bytes_min, |border| (border, END));
        program
    }

    /// Leaves longer packets to the stack; only before the first call.
    pub fn up_to(&mut self, bytes_max: usize) {
        self.leave_if_greater(bytes_max, |border| (END, border));
    }

    /// Compares the end of the packet with where `bytes` would end, in the order of `operands`.
    fn leave_if_greater(&mut self, bytes: usize, operands: fn(u8) -> (u8, u8)) {
        const BORDER: u8 = 4;
        self.code.add(MOVE, BORDER, PACKET, 0, 0);
        self.code.add(ADD_CONSTANT, BORDER, 0, 0, bytes as i32);
        let (greater, than) = operands(BORDER);
        self.others.push(self.code.add(JUMP_IF_GREATER, greater, than, 0, 0));
    }

    /// Leaves packets with another value at an offset to the stack; `load` says how many bits it has.
    pub fn expect(&mut self, load: u8, at: i16, value: i32) {
        self.code.add(load, LOADED, PACKET, at, 0);
        self.expect_loaded(value);
    }

    /// The same for a value that other instructions loaded, and perhaps changed.
    pub fn expect_loaded(&mut self, value: i32) {
        self.others.push(self.code.add(JUMP_IF_NOT, LOADED, 0, 0, value));
    }

    /// Redirects the packet to the map's socket for its queue, or to the stack if there is none.
    pub fn redirect(&mut self, map: RawFd) {
        self.code.add_wide(1, MAP, u64::from(map as u32));
        self.code.add(LOAD_32, 2, CONTEXT, CONTEXT_QUEUE, 0);
        self.code.add(MOVE_CONSTANT, 3, 0, 0, PASS);
        self.code.add(CALL, 0, 0, 0, REDIRECT_MAP);
    }

    /// Ends with the result of the last call, and passes all other packets to the stack.
    pub fn finish(mut self) -> Code {
        self.code.add(EXIT, 0, 0, 0, 0);
        self.others.into_iter().for_each(|from| self.code.lead_here(from));
        self.code.add(MOVE_CONSTANT, 0, 0, 0, PASS);
        self.code.add(EXIT, 0, 0, 0, 0);
        self.code
    }
}
