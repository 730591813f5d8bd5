//! Timestamps of the kernel, and the way past it. A process of its own: beside other tests, which keep all
//! processors busy, the kernel switches stamping on too late and a ring of frames overflows.

#[allow(dead_code, reason = "the other tests use more of it")]
#[path = "../it/common.rs"]
mod common;
mod kernel;
mod past_stack;
