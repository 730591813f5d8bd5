//! Which stage of a request varies: the profiler behind `curtail profile`.
#![forbid(unsafe_code)]

pub mod histogram;
pub mod moments;
pub mod profile;
pub mod traces;
