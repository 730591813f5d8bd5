//! D-Stages on real resources: duplicates are served when no primary is there, and leave when they are not needed.
//!
//! Source: document 003. The stage itself is the kernel's ([`curtail_kernel::stage`]), in real time
//! [`curtail_runtime::stage`]; here are the resources behind it, and servers that run it.
//!
//! - [`cpu`]: threads of two classes;
//! - [`disk`]: reads in pieces;
//! - [`link`]: sockets of two classes, and the bands of a link;
//! - [`get`]: a server of data over disk and link, its protocol, and its client;
//! - [`tcp`]: the stage before a server that cannot be changed, by connection. HTTP has [`curtail_proxy`] for that.

pub mod check;
pub mod config;
pub mod cpu;
pub mod disk;
pub mod get;
pub mod link;
mod seldom;
mod serve;
mod sys;
pub mod tcp;

pub use serve::{Running, StageError, Starting, start};
