//! What the cells of a service learn from each other.
//!
//! Cells run independently. After each epoch, their records go to the service's learner, and its snapshot to all cells.
//! An epoch lasts 10 ms at first and 100 ms after half a second. In the simulator it is a number of arrivals.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curtail_kernel::NEVER_NS;
use curtail_kernel::hedge::{Learner, Record};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::cell::Cell;
use crate::transport::Transport;

/// How long an epoch lasts at first, and at most. In between it is a quarter of the time that the service has run: early
/// conclusions count most for a service that begins.
const FIRST_EPOCH: Duration = Duration::from_millis(10);
const EPOCH: Duration = Duration::from_millis(100);

/// A learner that several tasks may look at.
#[derive(Debug)]
pub struct Learning {
    learner: Mutex<Learner>,
}

/// What was learned, for a status page.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Learned {
    /// By `rescue`.
    Rescue(LearnedRescue),
    /// By a hedge whose delay is learned.
    Delay {
        /// The age at which a query gets a second copy; null until it is known.
        delay_ns: Option<u64>,
    },
}

/// What `rescue` has learned.
#[derive(Clone, Debug, Serialize)]
pub struct LearnedRescue {
    /// The version of the policy that runs.
    version: &'static str,
    /// The age from which on a query is a suspect; null as long as rescues are not known to pay.
    suspect_ns: Option<u64>,
    /// Among how many of its oldest copies the responses of a replica fall: at most the number of its slots, and near that
    /// only at high load. Null where `slots` are configured, until it is learned, and above 63.
    slots: Option<u32>,
    /// The share of queries that are stuck at that age.
    stuck: f32,
    /// How often rescues were found not to pay any more.
    fallbacks: u64,
}

impl Learned {
    fn of(learner: &Learner) -> Self {
        let known = |ns| (ns != NEVER_NS).then_some(ns);
        let snapshot = learner.snapshot();
        let Some(learner) = learner.rescue() else {
            return Self::Delay { delay_ns: known(snapshot.delay_ns) };
        };
        let status = learner.status();
        Self::Rescue(LearnedRescue {
            version: learner.version().name(),
            suspect_ns: learner.threshold_ns(),
            slots: (snapshot.slots != u32::MAX).then_some(snapshot.slots),
            stuck: status.stuck,
            fallbacks: status.fallbacks,
        })
    }
}

impl Learning {
    /// Of a learner, see [`curtail_kernel::Policy::learner`].
    pub fn new(learner: Learner) -> Self {
        Self { learner: Mutex::new(learner) }
    }

    /// Lets the cells of a service learn until it is dropped.
    pub async fn run<T: Transport>(&self, cells: &[Cell<T>]) {
        let began = Instant::now();
        let mut records = Vec::new();
        loop {
            sleep((began.elapsed() / 4).clamp(FIRST_EPOCH, EPOCH)).await;
            self.epoch(cells, &mut records);
        }
    }

    /// An epoch has ended.
    fn epoch<T: Transport>(&self, cells: &[Cell<T>], records: &mut Vec<Record>) {
        records.clear();
        for cell in cells {
            cell.publish(records);
        }
        let snapshot = {
            let mut learner = self.lock();
            learner.absorb(records);
            *learner.snapshot()
        };
        for cell in cells {
            cell.adopt(&snapshot);
        }
    }

    /// What was learned, for a status page.
    pub fn learned(&self) -> Learned {
        self.look(Learned::of)
    }

    /// Looks at what was learned.
    pub fn look<V>(&self, with: impl FnOnce(&Learner) -> V) -> V {
        with(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Learner> {
        self.learner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
