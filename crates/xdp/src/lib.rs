//! UDP past the network stack of Linux, by AF_XDP, for a load generator whose figures must not contain
//! microseconds of the stack. Source: document 000, §3.1, where kernel bypass is the most precise method in
//! software.
//!
//! ```text
//!            Port ── XdpSocket ──┐ frames            a program of BPF on the device (`filter`)
//!   program                      ├──────── device ── redirects responses of one server to one port;
//!            UdpSocket ── stack ─┘ all the rest      everything else is left to the stack
//! ```
//!
//! [`Bypass`] finds the route to a server and prepares the device, before anything is measured; [`Port`]
//! sends and receives. Needs root, or `CAP_NET_ADMIN`, `CAP_NET_RAW`, `CAP_BPF` and `CAP_IPC_LOCK`; the last
//! is for 16 MiB that are shared with the kernel, for which `ulimit -l 32768` suffices as well. Nothing stays
//! on the device when the process ends, even if it is killed.
//!
//! [`hwstamp`] and [`route`] are for the other method near the wire, timestamps by the device.
//!
//! # What is unsafe
//!
//! `bpf` calls bpf(2), `hwstamp` calls ioctl(2), and `socket` shares memory with the kernel. All else is safe.

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
