//! What programs on a device have in common: they look at some bytes of a packet, and what is not as they expect
//! is left to the network stack.

use std::os::fd::RawFd;

use crate::code::{
    ADD_CONSTANT, CALL, Code, EXIT, JUMP_IF_GREATER, JUMP_IF_NOT, LOAD_32, MAP, MOVE, MOVE_CONSTANT,
};

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
