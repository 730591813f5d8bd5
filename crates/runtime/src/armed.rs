//! When the timers will wake a cell: which of its entries are still to come.

use curtail_kernel::Timestamp;

/// The entries of a cell that are still to come, latest first. There is one only for each time that
/// was earlier than all others when it was added; so a thousand queries with the same timeout
/// take one, and a hedge now and then does not leave more and more of them behind.
#[derive(Debug, Default)]
pub(crate) struct ArmedTimers(Vec<Timestamp>);

impl ArmedTimers {
    /// True when the timers must be asked for this time: no wake-up comes that early.
    pub(crate) fn add(&mut self, at: Timestamp) -> bool {
        let asked = self.0.last().is_some_and(|&first| first <= at);
        if !asked {
            self.0.push(at);
        }
        !asked
    }

    /// A wake-up came. Timers go off in order, so it was the first.
    pub(crate) fn expired(&mut self) {
        self.0.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cell whose next deadline is far, but for a moment after each arrival.
    #[test]
    fn an_early_deadline_now_and_then_leaves_nothing_behind() {
        let mut armed = ArmedTimers::default();
        // What the timers hold.
        let mut timers = Vec::new();
        for now in (0..10_000).step_by(10) {
            for at in [now + 500, now + 5] {
                if armed.add(Timestamp(at)) {
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
    fn what_is_due_first_is_always_wished_for() {
        let mut armed = ArmedTimers::default();
        assert!(armed.add(Timestamp(10)));
        assert!(!armed.add(Timestamp(10)) && !armed.add(Timestamp(11)));
        assert!(armed.add(Timestamp(9)));
        armed.expired();
        assert!(!armed.add(Timestamp(10)), "still to come");
        armed.expired();
        assert!(armed.add(Timestamp(10)));
    }
}
