//! Backoff for a closed-loop connection that failed.
//!
//! In a closed loop each response triggers the next request. If the server is down, attempts fail
//! immediately. Without backoff, thousands of attempts per second would count as requests and take
//! processor time from the process that restarts the server. A connection that closes without a
//! response therefore backs off for 1 ms. This time doubles after each further failure in a row, up
//! to 100 ms. Any response resets it, whatever the response's status. An open loop needs no
//! backoff, because its schedule determines when to try.

use std::collections::{BTreeSet, HashSet};

const FIRST_NS: u64 = 1_000_000;
const LONGEST_NS: u64 = 100_000_000;

#[derive(Debug, Default)]
pub(super) struct Backoff {
    until: BTreeSet<(u64, usize)>,
    connections: HashSet<usize>,
}

impl Backoff {
    /// Starts a backoff for a connection that has closed `failures` times in a row without a
    /// response. Has no effect on a connection that is already backing off.
    pub(super) fn begin(&mut self, id: usize, failures: u32, now_ns: u64) {
        if self.connections.insert(id) {
            self.until.insert((now_ns.saturating_add(span_ns(failures)), id));
        }
    }

    pub(super) fn expire(&mut self, now_ns: u64) -> Option<usize> {
        let &(until_ns, id) = self.until.first()?;
        if until_ns > now_ns {
            return None;
        }
        self.until.pop_first();
        self.connections.remove(&id);
        Some(id)
    }

    pub(super) fn first_ns(&self) -> Option<u64> {
        self.until.first().map(|(until_ns, _)| *until_ns)
    }
}

fn span_ns(failures: u32) -> u64 {
    let doublings = failures.saturating_sub(1).min(u64::BITS - 1);
    FIRST_NS.saturating_mul(1 << doublings).min(LONGEST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_backoff_doubles_up_to_the_longest() {
        let spans: Vec<u64> = (1..=9).map(|failures| span_ns(failures) / 1_000_000).collect();
        assert_eq!(spans, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
        assert_eq!(span_ns(u32::MAX), LONGEST_NS);
    }

    #[test]
    fn backoffs_end_in_the_order_of_their_expiry() {
        let mut backoff = Backoff::default();
        backoff.begin(7, 3, 0);
        backoff.begin(5, 1, 1_000_000);
        backoff.begin(5, 9, 1_500_000);
        assert_eq!((backoff.first_ns(), backoff.expire(1_999_999)), (Some(2_000_000), None));
        assert_eq!((backoff.expire(2_000_000), backoff.expire(2_000_000)), (Some(5), None));
        assert_eq!((backoff.expire(9_000_000), backoff.expire(9_000_000)), (Some(7), None));
        assert_eq!(backoff.first_ns(), None);
    }
}
