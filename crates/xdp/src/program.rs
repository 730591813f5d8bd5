//! Programs of BPF on a device, put together instruction by instruction: some tens of them, so that nobody needs a
//! compiler for BPF. They look at some bytes of a packet, and what is not as they expect is left to the network
//! stack. Source: Linux, Documentation/bpf/standardization/instruction-set.rst.

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
/// As the kind of a wide constant: it is the descriptor of a map.
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

    /// Adds an instruction and returns its place.
    pub fn add(&mut self, operation: u8, to: u8, from: u8, offset: i16, constant: i32) -> usize {
        let [o0, o1] = offset.to_ne_bytes();
        let [c0, c1, c2, c3] = constant.to_ne_bytes();
        self.0.push(u64::from_ne_bytes([operation, from << 4 | to, o0, o1, c0, c1, c2, c3]));
        self.0.len() - 1
    }

    /// Loads a constant of 64 bits, which takes two.
    pub fn add_wide(&mut self, to: u8, kind: u8, constant: u64) {
        self.add(LOAD_WIDE, to, kind, 0, constant as u32 as i32);
        self.add(0, 0, 0, 0, (constant >> 32) as u32 as i32);
    }

    /// Lets an earlier jump end here.
    pub fn lead_here(&mut self, from: usize) {
        let offset = (self.0.len() - from - 1) as i16;
        let mut bytes = self.0[from].to_ne_bytes();
        bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
        self.0[from] = u64::from_ne_bytes(bytes);
    }
}

/// The register that has the packet; calls leave it alone.
pub const PACKET: u8 = 7;
/// A register for what was loaded.
pub const LOADED: u8 = 5;

/// Registers: the context, which calls leave alone as well, and the end of the packet, until the first call.
const CONTEXT: u8 = 6;
const END: u8 = 3;

/// Where in the context of an XDP program the packet begins (`struct xdp_md`).
const CONTEXT_DATA: i16 = 0;
/// Where it ends.
const CONTEXT_DATA_END: i16 = 4;
/// The queue that it came by.
const CONTEXT_QUEUE: i16 = 16;

/// What an XDP program returns for a packet that is left to the stack (`XDP_PASS`).
pub const PASS: i32 = 2;
/// The helper that gives a packet to what a map has for a key.
const REDIRECT_MAP: i32 = 51;

/// A value as a program finds it in a packet, whose bytes lie in the order of the network.
pub fn network(value: u16) -> i32 {
    i32::from(value.to_be())
}

/// A program that is being written: first what it expects, then what it does, then
/// [`finish`](Program::finish).
#[derive(Debug)]
pub struct Program {
    /// For what has no method here.
    pub code: Code,
    others: Vec<usize>,
}

impl Program {
    /// Begins with what the kernel's verifier insists on: shorter packets are left to the stack, so that `bytes_min`
    /// bytes of all others may be loaded and stored.
    pub fn on_packets_of(bytes_min: usize) -> Self {
        let mut program = Self { code: Code::new(), others: Vec::new() };
        let code = &mut program.code;
        code.add(MOVE, CONTEXT, 1, 0, 0);
        code.add(LOAD_32, PACKET, CONTEXT, CONTEXT_DATA, 0);
        code.add(LOAD_32, END, CONTEXT, CONTEXT_DATA_END, 0);
        program.leave_if_greater(bytes_min, |border| (border, END));
        program
    }

    /// Longer packets are left to the stack; before any call.
    pub fn up_to(&mut self, bytes_max: usize) {
        self.leave_if_greater(bytes_max, |border| (END, border));
    }

    /// Compares the end with where `bytes` would end, in the order that `operands` says.
    fn leave_if_greater(&mut self, bytes: usize, operands: fn(u8) -> (u8, u8)) {
        const BORDER: u8 = 4;
        self.code.add(MOVE, BORDER, PACKET, 0, 0);
        self.code.add(ADD_CONSTANT, BORDER, 0, 0, bytes as i32);
        let (greater, than) = operands(BORDER);
        self.others.push(self.code.add(JUMP_IF_GREATER, greater, than, 0, 0));
    }

    /// Packets that have another value at a place are left to the stack; `load` says how many bits it has.
    pub fn expect(&mut self, load: u8, at: i16, value: i32) {
        self.code.add(load, LOADED, PACKET, at, 0);
        self.expect_loaded(value);
    }

    /// The same for what was loaded, and perhaps changed, by other instructions.
    pub fn expect_loaded(&mut self, value: i32) {
        self.others.push(self.code.add(JUMP_IF_NOT, LOADED, 0, 0, value));
    }

    /// Gives the packet to the socket that a map has for its queue, or to the stack if there is none.
    pub fn redirect(&mut self, map: RawFd) {
        self.code.add_wide(1, MAP, u64::from(map as u32));
        self.code.add(LOAD_32, 2, CONTEXT, CONTEXT_QUEUE, 0);
        self.code.add(MOVE_CONSTANT, 3, 0, 0, PASS);
        self.code.add(CALL, 0, 0, 0, REDIRECT_MAP);
    }

    /// Ends with what the last call returned, and for all others by leaving them to the stack.
    pub fn finish(mut self) -> Code {
        self.code.add(EXIT, 0, 0, 0, 0);
        self.others.into_iter().for_each(|from| self.code.lead_here(from));
        self.code.add(MOVE_CONSTANT, 0, 0, 0, PASS);
        self.code.add(EXIT, 0, 0, 0, 0);
        self.code
    }
}
