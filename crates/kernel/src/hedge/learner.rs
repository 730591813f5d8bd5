//! Learns parameters for all cells of a service, whatever its policy.
//!
//! Cells record how queries ended. At fixed epochs, the driver passes the records to the learner,
//! in the order of the cells, and hands the snapshot to all cells.

use alloc::boxed::Box;

use super::learned_delay::DelayLearner;
use super::record::{Record, Snapshot};
use super::rescue::RescueLearner;

/// The learner of a service.
#[derive(Clone, Debug)]
pub enum Learner {
    /// Learns the age from which a rescue pays off.
    Rescue(Box<RescueLearner>),
    /// Learns a percentile of ages.
    Delay(DelayLearner),
}

impl Learner {
    /// Adds the records of an epoch, in the order of the cells.
    pub fn absorb(&mut self, records: &[Record]) {
        match self {
            Self::Rescue(learner) => learner.absorb(records),
            Self::Delay(learner) => learner.absorb(records),
        }
    }

    /// The parameters that all cells use until the next epoch.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        match self {
            Self::Rescue(learner) => learner.snapshot(),
            Self::Delay(learner) => learner.snapshot(),
        }
    }

    /// The learner of `rescue`, or `None` for other policies.
    #[must_use]
    pub fn rescue(&self) -> Option<&RescueLearner> {
        match self {
            Self::Rescue(learner) => Some(learner),
            Self::Delay(_) => None,
        }
    }
}
