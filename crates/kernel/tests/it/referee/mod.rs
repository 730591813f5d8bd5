//! A referee: a second, simple model of a cell that sees every event and action and checks the
//! contract. It is independent of the kernel's data structures.

mod gates;
mod harness;
mod health;
mod model;
mod promises;

pub(crate) use harness::{Harness, named, names_pick};
pub(crate) use health::Health;
pub(crate) use model::{Copy, Model, Query};
