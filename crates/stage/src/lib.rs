//! D-Stages for real resources. A D-Stage serves duplicates only while no primary waits, and
//! removes them when they are no longer needed.
//!
//! Source: document 003. The logic of the stage is in the kernel ([`curtail_kernel::stage`]), and
//! its real-time version is in [`curtail_runtime::stage`]. This crate contains the resources behind
//! the stage, and the servers that use it.
//!
//! - [`cpu`]: threads of two classes;
//! - [`disk`]: reads in pieces;
//! - [`link`]: sockets of two classes, and the bands of a link;
//! - [`get`]: a server that sends data from a disk over a link, its protocol, and its client;
//! - [`tcp`]: the stage in front of a server that cannot be changed, with one job per connection.
//!   For HTTP, [`curtail_proxy`] is used as the stage.

pub mod check;
pub mod config;
pub mod cpu;
pub mod disk;
pub mod get;
pub mod link;
mod rate_limited;
mod serve;
mod sys;
pub mod tcp;

pub use serve::{Running, StageError, Starting, start};
