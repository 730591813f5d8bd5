//! When each query has been executed often enough. Cost: that of the bias, O(n log n).

use super::executions::{Executions, View};
use super::{Bias, JitterError};

/// How often to execute each query: until P is known within a tolerance, within bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repetitions {
    least: u32,
    most: u32,
    tolerance: f64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Execute each query more often.
    NotYet,
    /// P is known within the tolerance.
    Converged,
    /// Each query was executed as often as may be, and P is not known within the tolerance.
    AtMost,
}

impl Repetitions {
    /// From `least` to `most` executions of each query, until the bias of P is at most `tolerance`
    /// times its mean.
    ///
    /// # Errors
    ///
    /// [`JitterError::BadRule`] unless 1 ≤ `least` ≤ `most` and the tolerance is above 0.
    pub fn new(least: u32, most: u32, tolerance: f64) -> Result<Repetitions, JitterError> {
        if least >= 1 && least <= most && tolerance > 0.0 {
            Ok(Repetitions { least, most, tolerance })
        } else {
            Err(JitterError::BadRule { least, most, tolerance })
        }
    }

    /// Whether these are enough.
    #[must_use]
    pub fn stop(&self, executions: &Executions) -> Stop {
        match executions.repetitions() {
            done if done < self.least => Stop::NotYet,
            _ if executions.all().converged(self.tolerance) => Stop::Converged,
            done if done < self.most => Stop::NotYet,
            _ => Stop::AtMost,
        }
    }
}

impl View<'_> {
    /// True if P is known within `tolerance` times its mean: see [`Bias::is_within`]. False before
    /// the bias can be told.
    #[must_use]
    pub fn converged(&self, tolerance: f64) -> bool {
        self.bias().as_ref().is_some_and(|bias| Bias::is_within(bias, tolerance))
    }
}
