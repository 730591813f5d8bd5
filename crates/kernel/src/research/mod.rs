//! Variants that the source documents compare with their own proposals, for research in the
//! simulator. No user would choose one of them in production: `c3`, `two-choices` and `peak-ewma` are
//! better picks, and `cubic` is the better rate.

mod picks;
mod rates;

pub use picks::{C3_TWO_CHOICES, ELS, LEAST_RESPONSE_TIME, WEIGHTED_RANDOM};
pub use rates::{AIMD, BIC, FAST};
