//! How often a predictor stops the right copy of a pair: the one that would have ended later.
//!
//! Source: document 000 §5.2.1, 001 §4.1. A pre-emption is right if the copy that goes on ends no
//! later than the other would have. The interesting ones are those where a hiccup is involved, and
//! there it matters whether the copies started together (S1 → S2) or not (S4 → S2).

use curtail_kernel::{CopyId, Core};
use serde::Serialize;

use super::World;
use super::leaves::CopyState;
use crate::sink::Sink;

/// Right ones among some pre-emptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// All.
    pub all: u64,
    /// The right ones.
    pub right: u64,
}

/// How pre-emptions went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Accuracy {
    /// All of them.
    pub overall: Share,
    /// With a hiccup in a copy, where both started together.
    pub together: Share,
    /// With a hiccup in a copy, where one started earlier.
    pub apart: Share,
}

impl Share {
    fn count(&mut self, right: bool) {
        self.all += 1;
        self.right += u64::from(right);
    }

    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.right += other.right;
    }

    /// The share of the right ones; none where there are none at all.
    pub fn ratio(&self) -> Option<f64> {
        (self.all > 0).then(|| self.right as f64 / self.all as f64)
    }
}

impl Accuracy {
    pub(crate) fn add(&mut self, other: &Self) {
        self.overall.add(other.overall);
        self.together.add(other.together);
        self.apart.add(other.apart);
    }
}

impl World {
    /// A copy has stopped, and the cell does not know yet: was it stopped to make room, and was it
    /// the right one?
    pub(super) fn judge(&mut self, copy: CopyId, core: &Core, sink: &mut Sink) {
        let CopyState { id, preempted, .. } = self.leaves.copies[copy.slot as usize];
        if id != copy || !preempted {
            return;
        }
        let Some(query) = core.query_of(copy) else { return };
        if !sink.measures(self.queries[query.index()].request) {
            return;
        }
        let Some(other) = core.copies_of(query).find(|other| other.id != copy) else { return };
        let of = |id: CopyId| &self.leaves.copies[id.slot as usize];
        let right = of(other.id).ends_ns <= of(copy).ends_ns;
        let accuracy = &mut sink.tally.accuracy;
        accuracy.overall.count(right);
        if of(copy).hiccup || of(other.id).hiccup {
            let together = of(copy).began_ns == of(other.id).began_ns;
            let share = if together { &mut accuracy.together } else { &mut accuracy.apart };
            share.count(right);
        }
    }
}
