//! Which stage of a request varies: the profiler behind `curtail profile`.
#![forbid(unsafe_code)]

pub mod app;
pub mod binary;
pub mod histogram;
#[cfg(all(feature = "ebpf", target_os = "linux"))]
pub mod live;
pub mod moments;
pub mod profile;
