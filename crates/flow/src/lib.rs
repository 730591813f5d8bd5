//! x
pub mod metadata;
