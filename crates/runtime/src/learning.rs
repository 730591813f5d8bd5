//! Lets the cells of a service learn from each other.
//!
//! Cells run independently. After each epoch, the service's learner takes the records of all cells,
//! and all cells adopt its snapshot. The first epoch lasts 10 ms. The length of the epochs then
//! increases, and reaches its maximum of 100 ms after the first 400 ms. In the simulator, an epoch
//! is a number of arrivals.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curtail_kernel::NEVER_NS;
use curtail_kernel::hedge::{AnyLearner, DelayLearner, Learner, Records, RescueLearner};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::cell::Cell;
use crate::transport::Transport;

/// How long an epoch lasts at first, and at most. In between, it lasts a quarter of the time for
/// which the service has run, because early conclusions matter most to a service that has just
/// started.
const FIRST_EPOCH: Duration = Duration::from_millis(10);
const EPOCH: Duration = Duration::from_millis(100);

/// The learner of a service. Several tasks may read it.
#[derive(Debug)]
pub struct Learning {
    learner: Mutex<AnyLearner>,
}

/// The state of a learner, for a status page.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Learned {
    /// The state of `rescue`.
    Rescue(LearnedRescue),
    /// The state of a hedge that learns its delay.
    Delay {
        /// The age at which a query gets a second copy. Null until it is known.
        delay_ns: Option<u64>,
    },
    /// The state of a hedge from outside of the kernel.
    Other {
        /// Its snapshot, as text.
        snapshot: String,
    },
}

/// The state of `rescue`.
#[derive(Clone, Debug, Serialize)]
pub struct LearnedRescue {
    /// The version of the policy that runs.
    version: &'static str,
    /// The age at which a query becomes a suspect. Null until rescues are known to pay off.
    suspect_ns: Option<u64>,
    /// The number N for which the responses of a replica come from its N oldest copies. It is at
    /// most the number of slots, and close to it only at high load. Null if `slots` is configured,
    /// if N is not known yet, or if N is above 63.
    slots: Option<u32>,
    /// The share of queries that are stuck at that age.
    stuck: f32,
    /// The number of times that rescues ceased to pay off.
    fallbacks: u64,
}

impl Learned {
    fn of(learner: &AnyLearner) -> Self {
        if let Some(delay) = learner.get::<DelayLearner>() {
            let delay_ns = delay.snapshot().delay_ns;
            return Self::Delay { delay_ns: (delay_ns != NEVER_NS).then_some(delay_ns) };
        }
        let Some(rescue) = learner.get::<RescueLearner>() else {
            return Self::Other { snapshot: format!("{:?}", learner.snapshot()) };
        };
        let (status, snapshot) = (rescue.status(), rescue.snapshot());
        Self::Rescue(LearnedRescue {
            version: status.version,
            suspect_ns: status.threshold_ns,
            slots: (snapshot.slots != u32::MAX).then_some(snapshot.slots),
            stuck: status.stuck,
            fallbacks: status.fallbacks,
        })
    }
}

impl Learning {
    /// Creates the state from a learner. See [`curtail_kernel::Policy::learner`].
    pub fn new(learner: AnyLearner) -> Self {
        Self { learner: Mutex::new(learner) }
    }

    /// Runs the epochs of a service's cells until the future is dropped.
    pub async fn run<T: Transport>(&self, cells: &[Cell<T>]) {
        let began = Instant::now();
        let mut records = Records::default();
        loop {
            sleep((began.elapsed() / 4).clamp(FIRST_EPOCH, EPOCH)).await;
            self.epoch(cells, &mut records);
        }
    }

    /// An epoch has ended.
    fn epoch<T: Transport>(&self, cells: &[Cell<T>], records: &mut Records) {
        for cell in cells {
            cell.publish(records);
        }
        let snapshot = {
            let mut learner = self.lock();
            learner.absorb(records);
            learner.snapshot()
        };
        for cell in cells {
            cell.adopt(&snapshot);
        }
    }

    /// Returns the state of the learner, for a status page.
    pub fn learned(&self) -> Learned {
        self.look(Learned::of)
    }

    /// Passes the learner to `with` and returns the result.
    pub fn look<V>(&self, with: impl FnOnce(&AnyLearner) -> V) -> V {
        with(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, AnyLearner> {
        self.learner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Own;

    impl Learner for Own {
        type Record = ();
        type Snapshot = &'static str;

        fn absorb(&mut self, _: &[()]) {}

        fn snapshot(&self) -> &'static str {
            "what it learned"
        }
    }

    #[test]
    fn a_status_page_shows_what_any_policy_has_learned() {
        let learned = Learning::new(AnyLearner::new(Own)).learned();
        let json = serde_json::to_string(&learned).expect("it can be written");
        assert_eq!(json, r#"{"snapshot":"\"what it learned\""}"#);
        let delay = Learning::new(AnyLearner::new(DelayLearner::new(95.0))).learned();
        assert_eq!(serde_json::to_string(&delay).expect("as above"), r#"{"delay_ns":null}"#);
    }
}
