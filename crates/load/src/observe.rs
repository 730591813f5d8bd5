//! Tells whole answers to whoever wants to see each of them.
//!
//! They are handed over in batches, when nothing is due: a hand-over wakes another thread, which
//! takes as long as sending some requests.

use tokio::sync::mpsc;

use crate::engine::Clock;
use crate::outcome::Outcome;
use crate::run::Answer;

/// So many answers go in one batch at most.
const BATCH: usize = 256;
/// Most answers that wait to be handed over. Beyond it they are counted, and not told.
const WAITING_MAX: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct Observer {
    to: Option<mpsc::Sender<Vec<Answer>>>,
    batch: Vec<Answer>,
    /// Answers that were not told: whoever was to see them did not keep up.
    lost: u64,
}

impl Observer {
    pub(crate) fn new(to: Option<mpsc::Sender<Vec<Answer>>>) -> Observer {
        Observer { to, batch: Vec::new(), lost: 0 }
    }

    /// Takes a whole answer to a measured request.
    pub(crate) fn see(&mut self, outcome: Outcome, clock: Clock) {
        if self.to.is_none() || outcome.slot.warmup {
            return;
        }
        let Some(answer) = Answer::of(outcome, clock) else { return };
        if self.batch.len() >= WAITING_MAX {
            self.lost += 1;
            return;
        }
        self.batch.push(answer);
        if self.batch.len().is_multiple_of(BATCH) {
            self.flush();
        }
    }

    /// Hands over what there is, if there is room for it.
    pub(crate) fn flush(&mut self) {
        if let Some(to) = self.to.as_ref().filter(|_| !self.batch.is_empty())
            && let Ok(place) = to.try_reserve()
        {
            place.send(std::mem::take(&mut self.batch));
        }
    }

    /// Hands over the rest, however long it takes, and tells how many were not.
    pub(crate) fn finish(&mut self) -> u64 {
        if let Some(to) = self.to.take().filter(|_| !self.batch.is_empty()) {
            // Fails only if nobody listens any more.
            let _ = to.blocking_send(std::mem::take(&mut self.batch));
        }
        self.lost
    }
}
