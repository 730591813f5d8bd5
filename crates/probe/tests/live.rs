//! The profiler on a real server on loopback, which delays its requests by known times.
#![cfg(all(feature = "ebpf", target_os = "linux"))]
#![allow(missing_docs)]

#[path = "../examples/injected/server.rs"]
mod server;
