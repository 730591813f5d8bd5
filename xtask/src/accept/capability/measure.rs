//! The load generator and IQ-jitter.

mod chain;
mod jitter;
mod lag;
mod peers;
mod systems;
mod tools;
mod truth;

pub(super) use chain::judge as chain;
pub(super) use jitter::judge as jitter;
pub(super) use lag::judge as lag;
pub(super) use peers::judge as peers;
pub(super) use truth::{judge as truth, omission};
