//! Why nothing can be fitted.

use super::sample::{LARGEST, MIN_SAMPLES, SMALLEST};

/// Why a distribution does not fit. The message names the value and the mend.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    #[error("there {}; at least {MIN_SAMPLES} are needed", crate::error::are(*.0, "sample"))]
    TooFew(usize),
    #[error("sample {index} is {value}; samples are greater than 0 and finite: leave it out")]
    BadSample { index: usize, value: f64 },
    #[error(
        "sample {index} is 0, the first of more than one in a hundred; \
         measure by a finer clock, or leave them out"
    )]
    ManyZeros { index: usize },
    #[error(
        "sample {index} is {value:e}; \
         give samples from {SMALLEST:e} to {LARGEST:e}, by another unit"
    )]
    BadUnit { index: usize, value: f64 },
    #[error("every sample is {0}, or nearly so; a constant is written det:{0}")]
    NoSpread(f64),
    #[error(
        "the squared coefficient of variation is {}, and a hyper-exponential has more than 1; \
         use gamma or erlangs", four(*.0)
    )]
    TooRegular(f64),
    #[error("the {asked} largest of {count} samples are no tail; ask for 2 to {most}",
        most = count.saturating_sub(1))]
    BadTail { asked: usize, count: usize },
}

/// Four digits that say something: there is no more in any sample.
fn four(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}
