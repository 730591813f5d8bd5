//! Decides when a query gets further copies, and when a copy is given up.

mod das;
mod delayed;
mod histogram;
mod laedge;
mod learned_delay;
mod learning;
mod once;
mod rescue;
mod rule;

pub use das::DAS;
pub use delayed::{APP_TIMEOUT, DELAYED, PROBABILISTIC};
pub use laedge::{IDEALIZED, Judgment, LAEDGE, Laedge, MostRecent, Predictor, Victim};
pub use learned_delay::DelayLearner;
pub use learning::{
    Exploration, Learner, Learns, Prefetch, Record, Replaced, Snapshot, Status, Tried,
};
pub use once::{CLONE, NAIVE, NoHedge, TIED};
pub use rescue::{RESCUE, Rescue, RescueLearner, USUAL_COST, Version};
pub use rule::{AllCopies, Hedge, NewHedge, Site};

use crate::descriptor::Descriptor;

/// Every hedge.
pub static HEDGES: &[&Descriptor<NewHedge>] =
    &[&NAIVE, &CLONE, &DELAYED, &PROBABILISTIC, &TIED, &APP_TIMEOUT, &LAEDGE, &RESCUE, &DAS];
