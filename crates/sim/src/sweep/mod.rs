//! A grid of experiments: one experiment per combination of values. Each experiment compares all
//! policies with common random numbers.
//!
//! A [`Plan`] defines the sweep. Each point produces one line, and [`Lines`] stores the lines in a
//! directory ([`Store`]) or in a temporary file of this process. Tables are created from the lines,
//! which are read back in the order of the grid. The bytes of a table therefore do not depend on
//! where or when a point ran.

mod axis;
mod columns;
mod error;
mod grid;
mod lines;
mod plan;
mod store;
mod table;
mod written;

pub use axis::{Axis, Range, Scale, Value};
pub use error::{Error, StoreError};
pub use grid::{Grid, parameter};
pub use lines::Lines;
pub use plan::Plan;
pub use store::Store;
pub use table::{OutcomeTable, of_outcomes, pieces};
pub use written::Written;
