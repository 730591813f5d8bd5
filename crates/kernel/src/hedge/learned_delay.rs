//! Learned delay: starts a second copy when the age of the first exceeds a percentile of recent
//! ages.
//!
//! Source: Dean and Barroso, "The Tail at Scale" (2013), defer a second request until the first has
//! been outstanding for longer than the 95th percentile of expected latencies. failsafe-go and the
//! hedging clients for Go learn that percentile from traffic. There is one delay per service. Cells
//! record the age of the first copy when a query ends, even if a second copy won, and the service
//! keeps a histogram of recent ages.
//!
//! There are no second copies until [`OBSERVATIONS`] ages are known. A very high percentile needs
//! more ages: until there are enough, the delay is longer than every recorded age. The hedge budget
//! ([`crate::Limits::hedge_budget`]) applies, as it does to the fixed delay. Deviation: a
//! percentile is rounded up to the upper edge of its bin, by up to 6 %. So if all queries take the
//! same time, none of them gets a second copy.
//!
//! Cost: O(log n) for the timer, O(1) per answered query, O(bins) per epoch; 4 KB per service.

use alloc::vec::Vec;

use super::histogram::Histogram;
use super::learning::{AnyLearns, Journal, Learner, Learns};
use super::rule::{Hedge, set_timer_after};
use crate::NEVER_NS;
use crate::action::StartReason;
use crate::balance::Pick;
use crate::cell::Core;
use crate::descriptor::Conduct;
use crate::id::{CopyId, QueryId, ServerId};

/// The number of ages that must be known before there is a delay: the smallest number that
/// determines a 95th percentile. If it were higher, the tail of the first requests would not be
/// cut.
const OBSERVATIONS: u32 = 20;

const UNKNOWN: LearnedDelay = LearnedDelay { delay_ns: NEVER_NS };

/// The number of ages that the histogram remembers. The usual percentiles need a thousand ages.
const MEMORY: f32 = 1_024.0;

/// A query that was answered by any of its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The age of the query's first copy, in ns.
    pub age_ns: u64,
}

/// What the service has learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedDelay {
    /// The age at which a query gets a second copy, in ns. [`NEVER_NS`] until it is known.
    pub delay_ns: u64,
}

/// The hedge of one cell.
#[derive(Clone, Debug)]
pub(super) struct AfterLearnedDelay {
    learned: LearnedDelay,
    cleans_up: bool,
    records: Journal<Answered>,
}

impl AfterLearnedDelay {
    pub(super) fn new(cleans_up: bool) -> Self {
        Self { learned: UNKNOWN, cleans_up, records: Journal::default() }
    }
}

impl<P: Pick + ?Sized> Hedge<P> for AfterLearnedDelay {
    fn conduct(&self) -> Conduct {
        Conduct { cleans_up: self.cleans_up, ..Conduct::default() }
    }

    fn primary_started(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        if self.learned != UNKNOWN {
            set_timer_after(core, query, self.learned.delay_ns);
        }
    }

    fn timer(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        core.duplicate(pick, query, StartReason::Delay);
    }

    fn learns(&mut self) -> Option<&mut dyn AnyLearns> {
        Some(self)
    }
}

impl Learns for AfterLearnedDelay {
    type Learner = DelayLearner;

    fn answered(&mut self, core: &mut Core, query: QueryId, winner: CopyId, _: ServerId) -> bool {
        let started = core.copies_of(query).map(|copy| copy.started).min();
        let age_ns = started.map_or(0, |started| core.now().since(started));
        // If the query had only one copy, that copy is no longer among the copies of the query.
        let age_ns = age_ns.max(core.ran_ns(winner));
        self.records.push(Answered { age_ns });
        false
    }

    fn publish(&mut self, into: &mut Vec<Answered>) {
        self.records.publish(into);
    }

    fn adopt(&mut self, snapshot: &LearnedDelay) {
        self.learned = *snapshot;
    }
}

/// Learns a percentile of the ages of first copies.
#[derive(Clone, Debug)]
pub struct DelayLearner {
    /// The share of queries whose age reaches the delay.
    above: f32,
    /// The number of ages recorded, up to [`OBSERVATIONS`].
    seen: u32,
    ages: Histogram,
    learned: LearnedDelay,
}

impl DelayLearner {
    /// Creates a learner without observations. The percentile is above 0 and below 100.
    #[must_use]
    pub fn new(percentile: f64) -> Self {
        Self {
            above: (1.0 - percentile / 100.0) as f32,
            seen: 0,
            ages: Histogram::new(MEMORY..=MEMORY),
            learned: UNKNOWN,
        }
    }
}

impl Learner for DelayLearner {
    type Record = Answered;
    type Snapshot = LearnedDelay;

    fn snapshot(&self) -> LearnedDelay {
        self.learned
    }

    fn absorb(&mut self, records: &[Answered]) {
        for &Answered { age_ns } in records {
            self.ages.add(age_ns);
            self.seen = (self.seen + 1).min(OBSERVATIONS);
        }
        if self.seen == OBSERVATIONS {
            self.learned.delay_ns = self.ages.reached_by(self.above);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn delay_ns(learner: &DelayLearner) -> u64 {
        learner.snapshot().delay_ns
    }

    #[test]
    fn the_delay_is_the_percentile_of_recent_ages() {
        let mut learner = DelayLearner::new(95.0);
        let ages = |from: u64, count| -> Vec<_> {
            (0..count).map(|i| Answered { age_ns: (from + i % 100) * MS }).collect()
        };
        learner.absorb(&ages(1, u64::from(OBSERVATIONS) - 1));
        assert_eq!(delay_ns(&learner), NEVER_NS, "too few");
        learner.absorb(&ages(1, 2_000));
        let found = delay_ns(&learner) as f64 / 95e6;
        assert!((1.0..1.07).contains(&found), "{found}");
        learner.absorb(&ages(1_001, 4_000));
        let found = delay_ns(&learner) as f64 / 1_095e6;
        assert!((1.0..1.07).contains(&found), "{found}");
    }

    #[test]
    fn the_delay_exceeds_identical_ages() {
        let mut learner = DelayLearner::new(95.0);
        learner.absorb(&[Answered { age_ns: 10 * MS }; 20]);
        assert!((10 * MS + 1..11 * MS).contains(&delay_ns(&learner)), "{}", delay_ns(&learner));
    }
}
