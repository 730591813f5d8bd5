//! The profiler behind `curtail profile`: finds the stage of a request that makes latency vary.
#![forbid(unsafe_code)]

pub mod app;
pub mod binary;
pub mod causes;
pub mod compare;
pub mod histogram;
pub mod knobs;
#[cfg(target_os = "linux")]
pub mod live;
pub mod moments;
pub mod profile;
pub mod rank;
pub mod resample;
pub mod traces;
