//! Estimates from samples: confidence intervals, Student's t-distribution, ratios of alternating
//! rounds, the special functions behind them, and buckets of durations.
//!
//! An interval covers the true value with a probability of 95 %. The functions use no clock and
//! draw no random numbers.

pub mod buckets;
mod interval;
mod ratio;
pub mod special;
pub mod student;

pub use interval::{
    Estimate, at_least, difference, mean, poisson, probability, quotient, student_quantile,
};
pub use ratio::{Ratio, ratio};
