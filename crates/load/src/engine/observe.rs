//! Hands the outcomes of measured requests to an observer.
//!
//! Each hand-over wakes another thread, which takes as long as sending several requests does.
//! Therefore outcomes are handed over in batches, at times when no request is due.

use tokio::sync::mpsc;

use crate::results::outcome::Outcome;

/// Number of outcomes between two attempts to hand them over when requests are due all the time.
const BATCH: usize = 256;
/// Maximum number of outcomes that a thread keeps for a slow observer. Further outcomes are counted
/// and dropped.
const WAITING_MAX: usize = 1 << 16;

#[derive(Debug, Clone)]
pub(crate) struct Listener {
    pub(crate) to: mpsc::Sender<Vec<Outcome>>,
    /// Whether to also report requests that got no complete response.
    pub(crate) failures: bool,
}

#[derive(Debug)]
pub(crate) struct Observer {
    to: Option<Listener>,
    batch: Vec<Outcome>,
    dropped: u64,
}

impl Observer {
    pub(crate) fn new(to: Option<Listener>) -> Observer {
        Observer { to, batch: Vec::new(), dropped: 0 }
    }

    pub(crate) fn see(&mut self, outcome: Outcome) {
        let Some(to) = &self.to else { return };
        if outcome.slot.warmup || (outcome.result.is_err() && !to.failures) {
            return;
        }
        if self.batch.len() >= WAITING_MAX {
            self.dropped += 1;
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
            && let Ok(permit) = to.try_reserve()
        {
            permit.send(std::mem::take(&mut self.batch));
        }
    }

    /// Hands over the remaining outcomes, and waits until the observer has taken them. Returns the
    /// number of dropped outcomes.
    pub(crate) fn finish(&mut self) -> u64 {
        if let Some(Listener { to, .. }) = self.to.take().filter(|_| !self.batch.is_empty()) {
            // This fails only if the observer has been dropped.
            let _ = to.blocking_send(std::mem::take(&mut self.batch));
        }
        self.dropped
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
    fn a_slow_observer_misses_the_latest_outcomes_and_they_are_counted() {
        // The channel has room for one batch, and no task receives it.
        let (to, mut received) = mpsc::channel(1);
        let mut observer = Observer::new(Some(Listener { to, failures: true }));
        let all = (BATCH + WAITING_MAX) as u64 + 7;
        (0..all).for_each(|index| observer.see(failed(index)));
        let finished = std::thread::spawn(move || observer.finish());
        let batches = std::iter::from_fn(|| received.blocking_recv()).flatten();
        assert!(batches.map(|outcome| outcome.slot.index).eq(0..all - 7), "in their order");
        assert_eq!(finished.join().unwrap(), 7);
    }

    #[test]
    fn failures_are_reported_only_on_request() {
        for failures in [false, true] {
            let (to, mut received) = mpsc::channel(1);
            let mut observer = Observer::new(Some(Listener { to, failures }));
            observer.see(failed(0));
            observer.flush();
            assert_eq!(received.try_recv().is_ok(), failures);
        }
    }
}
