//! Picks the server for a copy.

mod c3;
mod checked;
mod counts;
mod peak_ewma;
mod pick;
mod prequal;
mod seen;

pub use c3::C3;
pub use counts::{LEAST_OUTSTANDING, LeastOutstanding, RANDOM, ROUND_ROBIN, TWO_CHOICES};
pub use peak_ewma::PEAK_EWMA;
pub use pick::{Ended, NewPick, Pick, Wanted};
pub use prequal::PREQUAL;
pub use seen::{Estimate, Seen};

pub(crate) use c3::psi;
pub(crate) use checked::Checked;

use crate::descriptor::Descriptor;
use crate::research;

/// Every pick.
pub static PICKS: &[&Descriptor<NewPick>] = &[
    &RANDOM,
    &ROUND_ROBIN,
    &LEAST_OUTSTANDING,
    &TWO_CHOICES,
    &PEAK_EWMA,
    &C3,
    &research::C3_TWO_CHOICES,
    &research::LEAST_RESPONSE_TIME,
    &research::WEIGHTED_RANDOM,
    &research::ELS,
    &PREQUAL,
];
