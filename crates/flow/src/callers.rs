//! A bounded table that assigns dense ids to the processes that call this one. Each caller is
//! identified by a random number that it sends.
//!
//! Source: document 002 §5.2.4: a process announces to each caller the caller's share of the rate.
//! The numbers are untrusted input, so the table has at most [`CALLERS_MAX`] entries. When the
//! table is full, a new caller replaces the one that has not called for the longest time.
//!
//! Cost: O(1) per call, or O(callers) if a new caller replaces another.

use std::collections::HashMap;

use curtail_kernel::Timestamp;
use curtail_kernel::flow::CallerId;

/// The largest number of callers in the table.
pub(crate) const CALLERS_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Callers {
    ids: HashMap<u32, CallerId>,
    /// The number of each caller, and the time of its last call.
    last_calls: Vec<(u32, Timestamp)>,
}

impl Callers {
    /// Records a call. Returns the dense id of the caller, and whether the id belonged to another
    /// caller before.
    pub(crate) fn record_call(&mut self, now: Timestamp, number: u32) -> (CallerId, bool) {
        if let Some(&id) = self.ids.get(&number) {
            self.last_calls[id.0 as usize].1 = now;
            return (id, false);
        }
        let is_full = self.last_calls.len() >= CALLERS_MAX;
        let at = if is_full {
            let oldest =
                (0..self.last_calls.len()).min_by_key(|&at| self.last_calls[at].1).unwrap_or(0);
            self.ids.remove(&self.last_calls[oldest].0);
            self.last_calls[oldest] = (number, now);
            oldest
        } else {
            self.last_calls.push((number, now));
            self.last_calls.len() - 1
        };
        let id = CallerId(at as u32);
        self.ids.insert(number, id);
        (id, is_full)
    }

    /// Returns the dense id of a caller in the table.
    pub(crate) fn id(&self, number: u32) -> Option<CallerId> {
        self.ids.get(&number).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_caller_replaces_the_one_that_was_silent_for_longest() {
        let mut callers = Callers::default();
        let most = CALLERS_MAX as u32;
        for number in 0..most {
            let id = callers.record_call(Timestamp(u64::from(number)), 7 * number);
            assert_eq!(id, (CallerId(number), false));
        }
        let now = Timestamp(u64::from(most));
        assert_eq!(callers.record_call(now, 0), (CallerId(0), false));
        assert_eq!(callers.record_call(now, 1), (CallerId(1), true), "that of 7");
        assert_eq!(callers.record_call(now, 7), (CallerId(2), true));
        assert_eq!((callers.ids.len(), callers.last_calls.len()), (CALLERS_MAX, CALLERS_MAX));
    }
}
