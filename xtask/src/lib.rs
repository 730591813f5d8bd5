//! What the recipes share with the programs of the lab: cargo, child processes, the commands of
//! pages, and requirements.
#![forbid(unsafe_code)]

pub mod cargo;
pub mod envoy;
pub mod needs;
pub mod page;
pub mod process;

/// The protocol of the gRPC calls with which the proxy is tested. The example `calls` serves it.
pub const CALLS_PROTO: &str = include_str!("calls.proto");
