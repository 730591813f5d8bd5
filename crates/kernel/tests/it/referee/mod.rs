//! A referee: a second, simple model of a cell that watches every event and action and checks the
//! contract. It knows nothing of how the kernel keeps its books.

mod gates;
mod model;
mod promises;
mod world;

pub(crate) use model::{Copy, Health, Model, Query};
pub(crate) use world::{World, named};
