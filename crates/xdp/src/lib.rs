//! UDP that bypasses the Linux network stack with AF_XDP. A load generator uses this crate if its
//! measurements must not include the microseconds that the stack adds. Source: document 000, §3.1,
//! which finds that kernel bypass is the most precise software method.
//!
//! ```text
//!            Port ── XdpSocket ──┐ frames            a BPF program on the device (`program`)
//!   program                      ├──────── device ── redirects responses of a server to one port;
//!            UdpSocket ── stack ─┘ all the rest      everything else is left to the stack
//! ```
//!
//! [`Bypass`] finds the route to a server and prepares the device before anything is measured.
//! [`Port`] sends and receives. Both require root, or `CAP_NET_ADMIN`, `CAP_NET_RAW`, `CAP_BPF` and
//! `CAP_IPC_LOCK`. The last capability allows 16 MiB of memory to be shared with the kernel. It can
//! be replaced by `ulimit -l 32768`. When the process ends, even if it is killed, nothing remains
//! attached to the device.
//!
//! [`hwstamp`] and [`route`] support another way to measure close to the wire, which is to let the
//! device timestamp packets.
//!
//! # Unsafe code
//!
//! The unsafe code of the crate is in `hwstamp`, which calls ioctl(2), and in `socket`, which
//! shares memory with the kernel.

mod bypass;
mod frame;
#[allow(unsafe_code)]
pub mod hwstamp;
pub mod namespace;
pub mod program;
pub mod route;
#[allow(unsafe_code)]
mod socket;

pub use aya::include_bytes_aligned;
pub use bypass::{Bypass, Port, Received};
pub use frame::PAYLOAD_MAX;
pub use socket::XdpSocket;
