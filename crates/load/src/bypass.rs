//! The way to a server past the network stack.

pub(crate) use curtail_xdp::{Bypass, PAYLOAD_MAX, Port, bpf::Mode};
