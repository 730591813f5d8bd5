//! Tells what became of measured requests to whoever wants to see each of them.
//!
//! They are handed over in batches, when nothing is due: a hand-over wakes another thread, which
//! takes as long as sending some requests.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use crate::results::outcome::Outcome;

const BATCH: usize = 256;
/// Most batches that a thread keeps, of 65,536 in all. Beyond it they are counted, and not told.
const FULL_MAX: usize = (1 << 16) / BATCH;

/// Who wants to be told, and of what.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    pub(crate) to: mpsc::Sender<Vec<Outcome>>,
    pub(crate) failures: bool,
}

#[derive(Debug)]
pub(crate) struct Observer {
    to: Option<Listener>,
    /// Batches that are full and wait, the oldest first.
    full: VecDeque<Vec<Outcome>>,
    batch: Vec<Outcome>,
    /// Those that were not told: whoever was to see them did not keep up.
    lost: u64,
}

impl Observer {
    pub(crate) fn new(to: Option<Listener>) -> Observer {
        Observer { to, full: VecDeque::new(), batch: Vec::new(), lost: 0 }
    }

    pub(crate) fn see(&mut self, outcome: Outcome) {
        let Some(to) = &self.to else { return };
        if outcome.slot.warmup || (outcome.result.is_err() && !to.failures) {
            return;
        }
        if self.full.len() >= FULL_MAX {
            self.lost += 1;
            return;
        }
        self.batch.push(outcome);
        if self.batch.len() >= BATCH {
            self.full.push_back(std::mem::take(&mut self.batch));
            self.flush();
        }
    }

    pub(crate) fn flush(&mut self) {
        let Some(Listener { to, .. }) = &self.to else { return };
        while !(self.full.is_empty() && self.batch.is_empty())
            && let Ok(place) = to.try_reserve()
        {
            let oldest = self.full.pop_front();
            place.send(oldest.unwrap_or_else(|| std::mem::take(&mut self.batch)));
        }
    }

    pub(crate) fn finish(&mut self) -> u64 {
        if let Some(Listener { to, .. }) = self.to.take() {
            let last = Some(std::mem::take(&mut self.batch)).filter(|batch| !batch.is_empty());
            for batch in self.full.drain(..).chain(last) {
                // Fails only if nobody listens any more.
                let _ = to.blocking_send(batch);
            }
        }
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::schedule::Slot;
    use crate::session::fault::Fault;

    fn failed(index: u64) -> Outcome {
        let slot = Slot { index, at_ns: 0, query: 0, warmup: false };
        Outcome { result: Err(Fault::Closed), ..Outcome::never_sent(slot, 0) }
    }

    #[test]
    fn whoever_is_too_slow_loses_the_latest_and_is_told_how_many() {
        // One place, and nobody takes anything out of it.
        let (to, mut told) = mpsc::channel(1);
        let mut observer = Observer::new(Some(Listener { to, failures: true }));
        let all = ((1 + FULL_MAX) * BATCH) as u64 + 7;
        (0..all).for_each(|index| observer.see(failed(index)));
        let finished = std::thread::spawn(move || observer.finish());
        let batches: Vec<_> = std::iter::from_fn(|| told.blocking_recv()).collect();
        assert_eq!(finished.join().unwrap(), 7);
        assert!(batches.iter().all(|batch| batch.len() == BATCH), "a place has one batch");
        let indexes = batches.iter().flatten().map(|outcome| outcome.slot.index);
        assert!(indexes.eq(0..all - 7), "in their order");
    }

    #[test]
    fn what_waits_is_handed_over_batch_by_batch_as_there_is_room() {
        let (to, mut told) = mpsc::channel(2);
        let mut observer = Observer::new(Some(Listener { to, failures: true }));
        let all = 5 * BATCH as u64 + 3;
        (0..all).for_each(|index| observer.see(failed(index)));
        let mut taken = Vec::new();
        while let Ok(batch) = told.try_recv() {
            assert!(batch.len() <= BATCH);
            taken.extend(batch.into_iter().map(|outcome| outcome.slot.index));
            observer.flush();
        }
        assert!(taken.into_iter().eq(0..all));
        assert_eq!(observer.finish(), 0);
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
