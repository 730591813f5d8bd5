//! A rate limit for log lines of one kind. An event that a replica or a client causes many times
//! per second is logged once per second, with the number of suppressed lines.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Shortest time between two lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Limits the lines of one kind.
#[derive(Debug)]
pub(crate) struct LogLimit {
    began: Instant,
    /// Earliest time of the next line, in ms after `began`.
    next_ms: AtomicU64,
    left_out: AtomicU64,
}

impl LogLimit {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), next_ms: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    /// If a line may be logged now, returns the number of lines suppressed since the last one.
    pub(crate) fn allow(&self) -> Option<u64> {
        self.allow_at(self.began.elapsed())
    }

    fn allow_at(&self, now: Duration) -> Option<u64> {
        let now = now.as_millis() as u64;
        let next = self.next_ms.load(Ordering::Relaxed);
        let until = now + INTERVAL.as_millis() as u64;
        let taken = now >= next
            && self
                .next_ms
                .compare_exchange(next, until, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if taken {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_second_with_the_number_that_was_left_out() {
        let limit = LogLimit::new();
        assert_eq!(limit.allow_at(Duration::ZERO), Some(0));
        assert!((0..9).all(|ms| limit.allow_at(Duration::from_millis(100 * ms)).is_none()));
        assert_eq!(limit.allow_at(INTERVAL), Some(9));
        assert_eq!(limit.allow_at(INTERVAL), None);
    }
}
