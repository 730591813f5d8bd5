//! Tells what became of measured requests to whoever wants to see each of them.
//!
//! They are handed over in batches, when nothing is due: a hand-over wakes another thread, which
//! takes as long as sending some requests.

use tokio::sync::mpsc;

use crate::outcome::Outcome;

/// So many go in one batch at most.
const BATCH: usize = 256;
/// Most that wait to be handed over. Beyond it they are counted, and not told.
const WAITING_MAX: usize = 1 << 16;

/// Who wants to be told, and of what.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    pub(crate) to: mpsc::Sender<Vec<Outcome>>,
    /// Of requests without a whole answer, too.
    pub(crate) failures: bool,
}

#[derive(Debug)]
pub(crate) struct Observer {
    to: Option<Listener>,
    batch: Vec<Outcome>,
    /// Those that were not told: whoever was to see them did not keep up.
    lost: u64,
}

impl Observer {
    pub(crate) fn new(to: Option<Listener>) -> Observer {
        Observer { to, batch: Vec::new(), lost: 0 }
    }

    /// Takes what became of a request.
    pub(crate) fn see(&mut self, outcome: Outcome) {
        let Some(to) = &self.to else { return };
        if outcome.slot.warmup || (outcome.result.is_err() && !to.failures) {
            return;
        }
        if self.batch.len() >= WAITING_MAX {
            self.lost += 1;
            return;
        }
        self.batch.push(outcome);
        if self.batch.len().is_multiple_of(BATCH) {
            self.flush();
        }
    }

    /// Hands over what there is, if there is room for it.
    pub(crate) fn flush(&mut self) {
        if let Some(listener) = self.to.as_ref().filter(|_| !self.batch.is_empty())
            && let Ok(place) = listener.to.try_reserve()
        {
            place.send(std::mem::take(&mut self.batch));
        }
    }

    /// Hands over the rest, however long it takes, and tells how many were not.
    pub(crate) fn finish(&mut self) -> u64 {
        if let Some(listener) = self.to.take().filter(|_| !self.batch.is_empty()) {
            // Fails only if nobody listens any more.
            let _ = listener.to.blocking_send(std::mem::take(&mut self.batch));
        }
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::schedule::Slot;

    fn failed(index: u64) -> Outcome {
        let slot = Slot { index, at_ns: 0, query: 0, warmup: false };
        Outcome { result: Err(Fault::Closed), ..Outcome::never_sent(slot, 0) }
    }

    #[test]
    fn whoever_is_too_slow_loses_the_latest_and_is_told_how_many() {
        // One place, and nobody takes anything out of it.
        let (to, mut told) = mpsc::channel(1);
        let mut observer = Observer::new(Some(Listener { to, failures: true }));
        let all = (BATCH + WAITING_MAX) as u64 + 7;
        (0..all).for_each(|index| observer.see(failed(index)));
        assert_eq!(told.try_recv().map(|batch| batch.len()), Ok(BATCH));
        assert_eq!(observer.finish(), 7);
        let rest = told.try_recv().expect("there is room again");
        assert_eq!(rest.len(), WAITING_MAX);
        assert!(rest.iter().map(|outcome| outcome.slot.index).eq(BATCH as u64..all - 7));
    }

    #[test]
    fn failures_are_told_only_to_whoever_wants_them() {
        for failures in [false, true] {
            let (to, mut told) = mpsc::channel(1);
            let mut observer = Observer::new(Some(Listener { to, failures }));
            observer.see(failed(0));
            observer.flush();
            assert_eq!(told.try_recv().is_ok(), failures);
        }
    }
}
