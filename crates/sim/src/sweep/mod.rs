//! A grid of experiments: every combination of some values, each compared by all policies on common
//! random numbers.

mod axis;
mod error;
mod grid;
mod run;

pub use axis::{Axis, Range, Scale, Value};
pub use error::Error;
pub use grid::Grid;
pub use run::{check, run};
