//! A referee: a second, simple model of a cell that watches every event and action and checks the
//! contract. It knows nothing of how the kernel keeps its books.
#![allow(unreachable_pub, dead_code)] // shared by several test binaries, each using a part

mod model;
mod promises;
pub mod world;

pub use model::{Copy, Health, Model, Query};
pub use world::World;
