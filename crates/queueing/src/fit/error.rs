//! Why nothing can be fitted.

use super::sample::{LARGEST, MIN_SAMPLES, SMALLEST};

/// Why a distribution does not fit. The message names the value and the mend.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    /// There are too few samples to say anything.
    #[error("there {}; at least {MIN_SAMPLES} are needed", crate::error::are(*.0, "sample"))]
    TooFew(usize),
    /// A sample is not a time.
    #[error("sample {index} is {value}; samples are greater than 0 and finite: leave it out")]
    BadSample {
        /// Its place, counted from 0.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// Too many samples are 0.
    #[error(
        "sample {index} is 0, the first of more than one in a hundred; \
         measure by a finer clock, or leave them out"
    )]
    ManyZeros {
        /// The first one's place, counted from 0.
        index: usize,
    },
    /// A sample is too large or too small to compute with.
    #[error(
        "sample {index} is {value:e}; \
         give samples from {SMALLEST:e} to {LARGEST:e}, by another unit"
    )]
    BadUnit {
        /// Its place, counted from 0.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// All samples are equal, or nearly so: there is no spread to fit to.
    #[error("every sample is {0}, or nearly so; a constant is written det:{0}")]
    NoSpread(f64),
    /// The samples vary less than a hyper-exponential can.
    #[error(
        "the squared coefficient of variation is {}, and a hyper-exponential has more than 1; \
         use gamma or erlangs", four(*.0)
    )]
    TooRegular(f64),
    /// The part of the tail that was asked for is not there.
    #[error("the {asked} largest of {count} samples are no tail; ask for 2 to {most}",
        most = count.saturating_sub(1))]
    BadTail {
        /// How many samples were asked for.
        asked: usize,
        /// How many there are.
        count: usize,
    },
}

/// Four digits that say something: there is no more in any sample.
fn four(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}
