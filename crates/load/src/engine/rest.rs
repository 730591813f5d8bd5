//! How long a connection of a closed loop rests before it is tried again.
//!
//! In a closed loop an answer sets off the next request. A server that is not there answers at once, in
//! its way: without a pause, thousands of attempts per second would be counted as requests, and keep the
//! machine from whatever starts the server again. So a connection that ended without an answer is left
//! alone for 1 ms, twice as long after each further time in a row, and 100 ms at most; an answer, whatever
//! its status, ends that. An open loop needs none of it: its schedule says when to try.

use std::collections::{BTreeSet, HashSet};

const FIRST_NS: u64 = 1_000_000;
const LONGEST_NS: u64 = 100_000_000;

#[derive(Debug, Default)]
pub(super) struct Rest {
    until: BTreeSet<(u64, usize)>,
    resting: HashSet<usize>,
}

impl Rest {
    /// A connection ended without an answer, so many times in a row. If it rests already, it goes on.
    pub(super) fn begin(&mut self, id: usize, in_vain: u32, now_ns: u64) {
        if self.resting.insert(id) {
            self.until.insert((now_ns.saturating_add(span_ns(in_vain)), id));
        }
    }

    pub(super) fn over(&mut self, now_ns: u64) -> Option<usize> {
        let &(until_ns, id) = self.until.first()?;
        if until_ns > now_ns {
            return None;
        }
        self.until.pop_first();
        self.resting.remove(&id);
        Some(id)
    }

    pub(super) fn first_ns(&self) -> Option<u64> {
        self.until.first().map(|(until_ns, _)| *until_ns)
    }
}

fn span_ns(in_vain: u32) -> u64 {
    let doublings = in_vain.saturating_sub(1).min(u64::BITS - 1);
    FIRST_NS.saturating_mul(1 << doublings).min(LONGEST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_takes_twice_as_long_up_to_the_longest() {
        let spans: Vec<u64> = (1..=9).map(|in_vain| span_ns(in_vain) / 1_000_000).collect();
        assert_eq!(spans, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
        assert_eq!(span_ns(u32::MAX), LONGEST_NS);
    }

    #[test]
    fn connections_come_back_in_the_order_in_which_they_have_rested() {
        let mut rest = Rest::default();
        rest.begin(7, 3, 0);
        rest.begin(5, 1, 1_000_000);
        rest.begin(5, 9, 1_500_000);
        assert_eq!((rest.first_ns(), rest.over(1_999_999)), (Some(2_000_000), None));
        assert_eq!((rest.over(2_000_000), rest.over(2_000_000)), (Some(5), None));
        assert_eq!((rest.over(9_000_000), rest.over(9_000_000)), (Some(7), None));
        assert_eq!(rest.first_ns(), None);
    }
}
