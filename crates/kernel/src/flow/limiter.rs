//! The rate limiter of one workflow: a token bucket with a queue. The queue accepts only requests
//! that can still meet their deadlines.
//!
//! Source: document 002 §5.2.5, *Admission control and drop policies*. A request may wait for
//! delay_max = δ − (elapsed + L), where L is the time that requests of its workflow take after
//! admission. The request is dropped if the backlog exceeds delay_max·σ. It is also dropped if its
//! turn comes too late because the rate has fallen.
//!
//! Cost: O(1) per call, O(waiting requests) to withdraw one.

use alloc::collections::VecDeque;

use super::RequestId;
use crate::time::Timestamp;

/// The decision about an arriving request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The request is admitted immediately.
    Admitted,
    /// The request waits for its turn.
    Queued,
    /// It is rejected.
    Dropped(Drop),
}

/// Why a request was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Drop {
    /// The request could not meet its deadline.
    Late,
    /// The queue is full.
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: RequestId,
    /// The latest time at which the request may be admitted.
    latest: Timestamp,
}

/// The limiter of one workflow.
#[derive(Clone, Debug)]
pub struct Limiter {
    /// σ, in requests per second.
    rate: f64,
    tokens: f64,
    filled: Timestamp,
    /// The time for which an idle limiter collects tokens, in s.
    burst_s: f64,
    queue: VecDeque<Waiting>,
    room: usize,
}

impl Limiter {
    /// Creates a limiter without a limit, with room for `room` waiting requests.
    #[must_use]
    pub fn new(burst_ns: u64, room: u32) -> Self {
        Self {
            rate: f64::INFINITY,
            tokens: 1.0,
            filled: Timestamp(0),
            burst_s: burst_ns as f64 / 1e9,
            queue: VecDeque::new(),
            room: room as usize,
        }
    }

    /// Returns σ, in requests per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns the number of waiting requests.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Sets the rate, in requests per second, above 0.
    pub fn set_rate(&mut self, now: Timestamp, rate: f64) {
        self.fill(now);
        self.rate = rate;
    }

    fn fill(&mut self, now: Timestamp) {
        let most = (self.rate * self.burst_s).max(1.0);
        let seconds = now.since(self.filled) as f64 / 1e9;
        self.filled = self.filled.max(now);
        self.tokens =
            if self.rate.is_finite() { (self.tokens + self.rate * seconds).min(most) } else { 1.0 };
    }

    /// Decides whether a request is admitted, waits, or is dropped. It must be admitted by
    /// `latest`, or `margin_ns` earlier if it has to wait.
    pub fn arrive(
        &mut self,
        now: Timestamp,
        request: RequestId,
        latest: Timestamp,
        margin_ns: u64,
    ) -> Admission {
        if latest < now {
            return Admission::Dropped(Drop::Late);
        }
        self.fill(now);
        if self.queue.is_empty() && (self.tokens >= 1.0 || self.rate.is_infinite()) {
            self.tokens -= 1.0;
            return Admission::Admitted;
        }
        let mut latest = latest;
        if latest != Timestamp::NEVER {
            let Some(spare_ns) = latest.since(now).checked_sub(margin_ns) else {
                return Admission::Dropped(Drop::Late);
            };
            if self.queue.len() as f64 > spare_ns as f64 / 1e9 * self.rate {
                return Admission::Dropped(Drop::Late);
            }
            latest = now.after(spare_ns);
        }
        if self.queue.len() >= self.room {
            return Admission::Dropped(Drop::Full);
        }
        self.queue.push_back(Waiting { request, latest });
        Admission::Queued
    }

    /// Returns the next request to be admitted because its turn has come, or to be dropped because
    /// its turn comes too late.
    pub fn release(&mut self, now: Timestamp) -> Option<(RequestId, Result<(), Drop>)> {
        let &Waiting { request, latest } = self.queue.front()?;
        if latest < now {
            self.queue.pop_front();
            return Some((request, Err(Drop::Late)));
        }
        self.fill(now);
        if self.tokens < 1.0 && self.rate.is_finite() {
            return None;
        }
        self.tokens -= 1.0;
        self.queue.pop_front();
        Some((request, Ok(())))
    }

    /// Removes a request from the queue. Returns false if it is not waiting.
    pub fn withdraw(&mut self, request: RequestId) -> bool {
        let before = self.queue.len();
        self.queue.retain(|waiting| waiting.request != request);
        self.queue.len() < before
    }

    /// Returns when the first waiting request may be admitted. [`Timestamp::NEVER`] if none is
    /// waiting.
    #[must_use]
    pub fn next_deadline(&self) -> Timestamp {
        let Some(first) = self.queue.front() else { return Timestamp::NEVER };
        if self.tokens >= 1.0 || self.rate.is_infinite() {
            return self.filled;
        }
        // The time is rounded up, so that the token is available by then.
        let wait_ns = (1.0 - self.tokens) / self.rate * 1e9;
        self.filled.after(wait_ns as u64 + 1).min(first.latest.after(1))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const MS: u64 = 1_000_000;
    const NEVER: Timestamp = Timestamp::NEVER;

    fn at(ms: u64) -> Timestamp {
        Timestamp(ms * MS)
    }

    fn limited(per_second: f64) -> Limiter {
        let mut limiter = Limiter::new(100 * MS, 100);
        limiter.set_rate(at(0), per_second);
        limiter
    }

    #[test]
    fn requests_pass_at_the_rate_and_an_idle_limiter_saves_little() {
        let mut limiter = limited(100.0);
        let mut passed = [0, 0];
        for ms in 0..2_000 {
            let request = RequestId(ms as u32);
            let admitted = limiter.arrive(at(ms), request, NEVER, 0) == Admission::Admitted;
            let mut count = usize::from(admitted);
            while let Some((_, outcome)) = limiter.release(at(ms)) {
                assert_eq!(outcome, Ok(()));
                count += 1;
            }
            passed[usize::from(ms >= 1_000)] += count;
        }
        assert_eq!(passed, [100, 100]);
        (2_000..60_000).for_each(|ms| while limiter.release(at(ms)).is_some() {});
        let burst = (0..50).filter(|&n| {
            limiter.arrive(at(120_000), RequestId(n), NEVER, 0) == Admission::Admitted
        });
        assert_eq!(burst.count(), 10, "the tokens of 100 ms");
    }

    #[test]
    fn only_requests_that_can_be_in_time_wait() {
        let mut limiter = limited(10.0);
        assert_eq!(limiter.arrive(at(0), RequestId(0), at(0), 0), Admission::Admitted);
        // In 300 ms, three requests are admitted.
        let outcomes: Vec<Admission> =
            (1..=5).map(|n| limiter.arrive(at(0), RequestId(n), at(300), 0)).collect();
        let late = Admission::Dropped(Drop::Late);
        assert_eq!(outcomes, [Admission::Queued; 4].into_iter().chain([late]).collect::<Vec<_>>());
        assert_eq!(limiter.arrive(at(1), RequestId(9), at(0), 0), late);
        assert_eq!(limiter.next_deadline().0 / MS, 100);
        assert_eq!(limiter.release(at(101)), Some((RequestId(1), Ok(()))));
        assert_eq!(limiter.release(at(101)), None);
        assert_eq!(limiter.release(at(301)), Some((RequestId(2), Err(Drop::Late))));
        assert!(limiter.withdraw(RequestId(3)) && !limiter.withdraw(RequestId(3)));
        assert_eq!(limiter.waiting(), 1);
    }

    #[test]
    fn only_requests_that_wait_keep_a_margin() {
        let mut limiter = limited(10.0);
        let mut arrive = |n, margin| limiter.arrive(at(0), RequestId(n), at(300), margin * MS);
        assert_eq!(arrive(0, 400), Admission::Admitted);
        assert_eq!(arrive(1, 400), Admission::Dropped(Drop::Late));
        assert_eq!(arrive(2, 150), Admission::Queued);
        assert_eq!(arrive(3, 150), Admission::Queued);
        assert_eq!(arrive(4, 150), Admission::Dropped(Drop::Late), "150 ms earn 1.5 requests");
    }

    #[test]
    fn the_queue_is_bounded_and_an_infinite_rate_lets_all_pass() {
        let mut limiter = Limiter::new(100 * MS, 2);
        limiter.set_rate(at(0), 1.0);
        let full = (0..5).map(|n| limiter.arrive(at(0), RequestId(n), NEVER, 0)).last();
        assert_eq!(full, Some(Admission::Dropped(Drop::Full)));
        limiter.set_rate(at(0), f64::INFINITY);
        assert!(limiter.release(at(0)).is_some() && limiter.release(at(0)).is_some());
        assert!(
            (0..1_000)
                .all(|n| limiter.arrive(at(0), RequestId(n), NEVER, 0) == Admission::Admitted)
        );
        assert_eq!(limiter.next_deadline(), NEVER);
    }
}
