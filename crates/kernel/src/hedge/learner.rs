//! What a service learns from its cells, with whatever policy.
//!
//! Cells record how queries ended. At fixed epochs the driver gives the records to the learner, in the order of cells,
//! and the snapshot to all cells.

use alloc::boxed::Box;

use super::learned_delay::DelayLearner;
use super::record::{Record, Snapshot};
use super::rescue::RescueLearner;

/// What a service learns with.
#[derive(Clone, Debug)]
pub enum Learner {
    /// The age from which on a rescue pays.
    Rescue(Box<RescueLearner>),
    /// A percentile of ages.
    Delay(DelayLearner),
}

impl Learner {
    /// Takes in what the cells have recorded in an epoch, in the order of cells.
    pub fn absorb(&mut self, records: &[Record]) {
        match self {
            Self::Rescue(learner) => learner.absorb(records),
            Self::Delay(learner) => learner.absorb(records),
        }
    }

    /// What all cells go by until the next epoch.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        match self {
            Self::Rescue(learner) => learner.snapshot(),
            Self::Delay(learner) => learner.snapshot(),
        }
    }

    /// The learner of `rescue`, if it is one.
    #[must_use]
    pub fn rescue(&self) -> Option<&RescueLearner> {
        match self {
            Self::Rescue(learner) => Some(learner),
            Self::Delay(_) => None,
        }
    }
}
