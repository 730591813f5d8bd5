//! Tests of kernel timestamps and of the bypass of the network stack, in a separate process. Other
//! tests keep all processors busy. If these tests ran alongside them, the kernel would enable
//! timestamping too late, and a ring of frames would overflow.

#[allow(dead_code, reason = "only the other tests use all of it")]
#[path = "../it/common.rs"]
mod common;
mod kernel;
mod past_stack;
