//! UDP that bypasses the Linux network stack with AF_XDP. A load generator uses it if measurements
//! must not include the microseconds that the stack adds. Source: document 000, §3.1, which finds
//! that kernel bypass is the most precise method in software.
//!
//! ```text
//!            Port ── XdpSocket ──┐ frames            a BPF program on the device (`filter`)
//!   program                      ├──────── device ── redirects responses of a server to one port;
//!            UdpSocket ── stack ─┘ all the rest      everything else is left to the stack
//! ```
//!
//! [`Bypass`] finds the route to a server and prepares the device before anything is measured.
//! [`Port`] sends and receives. Both need root, or `CAP_NET_ADMIN`, `CAP_NET_RAW`, `CAP_BPF` and
//! `CAP_IPC_LOCK`. The last one allows 16 MiB of memory to be shared with the kernel; `ulimit -l
//! 32768` is an alternative. Nothing stays on the device when the process ends, even if it is
//! killed.
//!
//! [`hwstamp`] and [`route`] support the other method of measuring close to the wire: timestamps
//! that the device takes.
//!
//! # Unsafe code
//!
//! `bpf` calls bpf(2), `hwstamp` calls ioctl(2), and `socket` shares memory with the kernel. The
//! rest of the crate is safe.

#[allow(unsafe_code)]
pub mod bpf;
mod bypass;
mod filter;
mod frame;
#[allow(unsafe_code)]
pub mod hwstamp;
pub mod namespace;
mod neighbor;
mod port;
pub mod program;
pub mod route;
#[allow(unsafe_code)]
mod socket;

pub use bypass::Bypass;
pub use frame::PAYLOAD_MAX;
pub use port::{Port, Received};
pub use socket::XdpSocket;
