//! What no library does safely: calls of the system, and memory that the kernel shares. All of the unsafe
//! code is here, each block with its reason.
#![allow(unsafe_code)]

pub(crate) mod bpf;
pub(crate) mod options;
pub(crate) mod xdp;
