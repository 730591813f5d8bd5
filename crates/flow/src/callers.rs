//! The processes that call this one, by the random numbers that they send: a bounded table of dense names.
//!
//! Source: document 002 §5.2.4: a process announces to each caller its part. Numbers come from outside, so there are at
//! most [`CALLERS_MAX`]; a further caller takes the place of the one not heard of for longest.
//!
//! Cost: O(1) per call; O(callers) for a caller that takes a place.

use std::collections::HashMap;

use curtail_kernel::Timestamp;
use curtail_kernel::flow::CallerId;

/// As many callers are known.
pub(crate) const CALLERS_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Callers {
    ids: HashMap<u32, CallerId>,
    /// By caller: its number, and when it was heard of.
    heard: Vec<(u32, Timestamp)>,
}

impl Callers {
    /// The dense name of a caller, and whether it was another's before.
    pub(crate) fn heard(&mut self, now: Timestamp, number: u32) -> (CallerId, bool) {
        if let Some(&id) = self.ids.get(&number) {
            self.heard[id.0 as usize].1 = now;
            return (id, false);
        }
        let is_full = self.heard.len() >= CALLERS_MAX;
        let at = if is_full {
            let oldest = (0..self.heard.len()).min_by_key(|&at| self.heard[at].1).unwrap_or(0);
            self.ids.remove(&self.heard[oldest].0);
            self.heard[oldest] = (number, now);
            oldest
        } else {
            self.heard.push((number, now));
            self.heard.len() - 1
        };
        let id = CallerId(at as u32);
        self.ids.insert(number, id);
        (id, is_full)
    }

    /// The dense name of a caller that is known.
    pub(crate) fn id(&self, number: u32) -> Option<CallerId> {
        self.ids.get(&number).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_not_heard_of_for_longest_gives_its_place() {
        let mut callers = Callers::default();
        let most = CALLERS_MAX as u32;
        for number in 0..most {
            let id = callers.heard(Timestamp(u64::from(number)), 7 * number);
            assert_eq!(id, (CallerId(number), false));
        }
        let now = Timestamp(u64::from(most));
        assert_eq!(callers.heard(now, 0), (CallerId(0), false));
        assert_eq!(callers.heard(now, 1), (CallerId(1), true), "that of 7");
        assert_eq!(callers.heard(now, 7), (CallerId(2), true));
        assert_eq!((callers.ids.len(), callers.heard.len()), (CALLERS_MAX, CALLERS_MAX));
    }
}
