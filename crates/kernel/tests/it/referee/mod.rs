//! A referee: a second, simple model of a cell that watches every event and action and checks the
//! contract. It knows nothing of how the kernel keeps its books.

mod gates;
mod health;
mod model;
mod promises;
mod world;

pub(crate) use health::Health;
pub(crate) use model::{Copy, Model, Query};
pub(crate) use world::{World, named, names_pick};
