//! Converts tokio's clock to the kernel's time, so that a test that pauses one also pauses the
//! other. Records the timers that a cell has set.

use curtail_kernel::Timestamp;
use tokio::time::Instant;

/// Counts nanoseconds from its creation. 584 years of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { epoch: Instant::now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(self.epoch.elapsed().as_nanos() as u64)
    }

    /// When a timestamp is; none when it never is.
    pub(crate) fn instant(&self, at: Timestamp) -> Option<Instant> {
        if at == Timestamp::NEVER {
            return None;
        }
        self.epoch.checked_add(std::time::Duration::from_nanos(at.0))
    }

    /// The timestamp of an instant; one before the epoch is the epoch.
    pub(crate) fn timestamp(&self, at: Instant) -> Timestamp {
        Timestamp(at.saturating_duration_since(self.epoch).as_nanos() as u64)
    }
}

/// The entries of a cell that are still to come, latest first. There is one only for each time that
/// was earlier than all others when it was added; so a thousand queries with the same timeout
/// take one, and a hedge now and then does not leave more and more of them behind.
#[derive(Debug, Default)]
pub(crate) struct ArmedTimers(Vec<Timestamp>);

impl ArmedTimers {
    /// Returns whether a timer expires at this time or earlier.
    pub(crate) fn covers(&self, at: Timestamp) -> bool {
        self.0.last().is_some_and(|&first| first <= at)
    }

    /// Adds a time that is not [covered](Self::covers), and for which the timers are set.
    pub(crate) fn add(&mut self, at: Timestamp) {
        self.0.push(at);
    }

    /// A timer expired. Timers expire in order, so it was the first.
    pub(crate) fn expired(&mut self) {
        self.0.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cell's next deadline is far, except for a moment after each arrival.
    #[test]
    fn an_early_deadline_now_and_then_leaves_nothing_behind() {
        let mut armed = ArmedTimers::default();
        // The entries of the timers.
        let mut timers = Vec::new();
        for now in (0..10_000).step_by(10) {
            for at in [now + 500, now + 5] {
                if !armed.covers(Timestamp(at)) {
                    armed.add(Timestamp(at));
                    timers.push(at);
                }
            }
            timers.sort_unstable_by(|a, b| b.cmp(a));
            assert!(timers.len() <= 2, "{timers:?}");
            while timers.last().is_some_and(|&at| at <= now + 9) {
                timers.pop();
                armed.expired();
            }
        }
    }

    #[test]
    fn the_earliest_deadline_is_always_requested() {
        let mut armed = ArmedTimers::default();
        assert!(!armed.covers(Timestamp(10)));
        armed.add(Timestamp(10));
        assert!(armed.covers(Timestamp(10)) && armed.covers(Timestamp(11)));
        assert!(!armed.covers(Timestamp(9)));
        armed.add(Timestamp(9));
        armed.expired();
        assert!(armed.covers(Timestamp(10)), "still to come");
        armed.expired();
        assert!(!armed.covers(Timestamp(10)));
    }
}
