//! Programs of BPF, put together instruction by instruction: some tens of them, so that nobody needs a compiler
//! for BPF. Source: Linux, Documentation/bpf/standardization/instruction-set.rst.

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
