//! Decides when a query gets further copies, and when a copy is given up.

mod das;
mod delayed;
mod histogram;
mod laedge;
mod learned_delay;
mod learning;
mod once;
pub mod rescue;
mod rule;

pub use das::DAS;
pub use delayed::{APP_TIMEOUT, DELAYED, PROBABILISTIC};
pub use laedge::{IDEALIZED, Judgment, LAEDGE, Laedge, MostRecent, Predictor, Victim};
pub use learned_delay::{Answered, DelayLearner, LearnedDelay};
pub use learning::{AnyLearner, AnyLearns, Journal, Learner, Learns, Records, Snapshot};
pub use once::{CLONE, NAIVE, NoHedge, TIED};
pub use rescue::{RESCUE, Rescue, RescueLearner, USUAL_COST, Version};
pub use rule::{AllCopies, Hedge, NewHedge};

pub use crate::config::Site;
use crate::descriptor::Descriptor;

/// Every hedge.
pub static HEDGES: &[&Descriptor<NewHedge>] =
    &[&NAIVE, &CLONE, &DELAYED, &PROBABILISTIC, &TIED, &APP_TIMEOUT, &LAEDGE, &RESCUE, &DAS];
