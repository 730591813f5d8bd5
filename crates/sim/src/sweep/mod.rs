//! A grid of experiments: every combination of some values, each compared by all policies on common
//! random numbers.
//!
//! A [`Plan`] is what is run. Its points make lines, which [`Lines`] keeps, in a directory
//! ([`Store`]) or for this process alone. Tables are made of lines, read back in the order of the
//! grid: so their bytes depend neither on who ran which point nor on when.

mod axis;
mod columns;
mod error;
mod grid;
mod lines;
mod plan;
mod store;
mod table;

pub use axis::{Axis, Range, Scale, Value};
pub use error::{Error, StoreError};
pub use grid::{Grid, parameter};
pub use lines::Lines;
pub use plan::Plan;
pub use store::Store;
pub use table::{of_outcomes, pieces};
