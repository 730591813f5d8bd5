//! The load generator and IQ-jitter.

mod jitter;
mod lag;
mod peers;
mod tools;
mod truth;

pub(super) use jitter::judge as jitter;
pub(super) use lag::judge as lag;
pub(super) use peers::judge as peers;
pub(super) use truth::{judge as truth, omission};
