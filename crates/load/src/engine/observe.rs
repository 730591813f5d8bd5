//! Passes on what became of measured requests to an observer that wants to see each of them.
//!
//! They are handed over in batches, when nothing is due: a hand-over wakes another thread, which
//! takes as long as sending some requests.

use tokio::sync::mpsc;

use crate::results::outcome::Outcome;

/// Between two attempts to hand over while requests are due all the time.
const BATCH: usize = 256;
/// What a thread keeps for an observer that does not keep up. Beyond it outcomes are counted and left out.
const WAITING_MAX: usize = 1 << 16;

#[derive(Debug, Clone)]
pub(crate) struct Listener {
    pub(crate) to: mpsc::Sender<Vec<Outcome>>,
    /// Of requests without a whole response, too.
    pub(crate) failures: bool,
}

#[derive(Debug)]
pub(crate) struct Observer {
    to: Option<Listener>,
    batch: Vec<Outcome>,
    lost: u64,
}

impl Observer {
    pub(crate) fn new(to: Option<Listener>) -> Observer {
        Observer { to, batch: Vec::new(), lost: 0 }
    }

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

    pub(crate) fn flush(&mut self) {
        if let Some(Listener { to, .. }) = &self.to
            && !self.batch.is_empty()
            && let Ok(place) = to.try_reserve()
        {
            place.send(std::mem::take(&mut self.batch));
        }
    }

    /// Hands over the rest, however long it takes. How many were left out.
    pub(crate) fn finish(&mut self) -> u64 {
        if let Some(Listener { to, .. }) = self.to.take().filter(|_| !self.batch.is_empty()) {
            // Fails only if nobody listens any more.
            let _ = to.blocking_send(std::mem::take(&mut self.batch));
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
    fn an_observer_that_is_too_slow_loses_the_latest_and_hears_how_many() {
        // There is room for one batch, and nobody takes it.
        let (to, mut passed_on) = mpsc::channel(1);
        let mut observer = Observer::new(Some(Listener { to, failures: true }));
        let all = (BATCH + WAITING_MAX) as u64 + 7;
        (0..all).for_each(|index| observer.see(failed(index)));
        let finished = std::thread::spawn(move || observer.finish());
        let batches = std::iter::from_fn(|| passed_on.blocking_recv()).flatten();
        assert!(batches.map(|outcome| outcome.slot.index).eq(0..all - 7), "in their order");
        assert_eq!(finished.join().unwrap(), 7);
    }

    #[test]
    fn failures_are_passed_on_only_where_they_are_wanted() {
        for failures in [false, true] {
            let (to, mut passed_on) = mpsc::channel(1);
            let mut observer = Observer::new(Some(Listener { to, failures }));
            observer.see(failed(0));
            observer.flush();
            assert_eq!(passed_on.try_recv().is_ok(), failures);
        }
    }
}
