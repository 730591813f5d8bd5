//! The accuracy of a predictor: how often it stops the right copy of a pair, which is the copy that
//! would have ended later.
//!
//! Source: document 000 §5.2.1, 001 §4.1. A pre-emption is right if the remaining copy ends no
//! later than the other copy would have ended. The interesting pre-emptions are those of pairs in
//! which a copy has a hiccup. For these, it matters whether the copies started together (S1 → S2)
//! or not (S4 → S2).

use curtail_kernel::{CopyId, Core};

use super::ShardState;
use super::leaves::CopyState;
use crate::sink::Sink;

impl ShardState {
    /// Counts a stopped copy if it was pre-empted. This method must be called before the cell
    /// receives the event.
    pub(super) fn judge(&mut self, copy: CopyId, core: &Core, sink: &mut Sink) {
        let CopyState { id, preempted, .. } = self.leaves.copies[copy.slot as usize];
        if id != copy || !preempted {
            return;
        }
        let Some(query) = core.query_of(copy) else { return };
        if !sink.measures(self.queries[query.0].request) {
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
