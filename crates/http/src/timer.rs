//! The timer of a task that has many deadlines and meets most of them.

use std::pin::Pin;
use std::task::{Context, Waker};

use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, Sleep, sleep_until};

/// Resumes a task at its deadlines. The timer is not set for each of them. It stays set for an earlier
/// deadline, and is set for the current one when that one has passed.
#[derive(Debug, Default)]
pub struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// The waker that the timer has. Polling the timer again with the same one would be useless.
    waker: Option<Waker>,
}

impl Timer {
    /// Returns whether `deadline` has passed. If not, the task is woken when it has, or earlier.
    pub fn poll_passed(&mut self, deadline: Instant, cx: &mut Context<'_>) -> bool {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if deadline < sleep.deadline() {
            sleep.as_mut().reset(deadline);
            self.waker = None;
        }
        loop {
            if !sleep.is_elapsed() {
                if self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    return false;
                }
                // Without budget, the poll does not register the waker. It resumes the task instead.
                let registers = has_budget_remaining();
                // A task that has used up its budget is never ready, but may have missed its deadline.
                if sleep.as_mut().poll(cx).is_pending() && !sleep.is_elapsed() {
                    self.waker = registers.then(|| cx.waker().clone());
                    return false;
                }
            }
            if sleep.deadline() >= deadline {
                return true;
            }
            sleep.as_mut().reset(deadline);
            self.waker = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;
    use std::time::Duration;

    use tokio::task::coop::poll_proceed;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_without_budget_does_not_miss_its_deadline() {
        let start = Instant::now();
        let (mut timer, mut is_first) = (Timer::default(), true);
        let passed = poll_fn(|cx| {
            while is_first && has_budget_remaining() {
                if let Poll::Ready(coop) = poll_proceed(cx) {
                    coop.made_progress();
                }
            }
            is_first = false;
            if timer.poll_passed(start + Duration::from_secs(3), cx) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        tokio::time::timeout(Duration::from_secs(9), passed).await.expect("it resumes the task");
        assert!(start.elapsed() < Duration::from_secs(4));
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_deadline_is_met_too() {
        let (start, mut timer) = (Instant::now(), Timer::default());
        for (seconds, after) in [(9, 0), (3, 3), (5, 5)] {
            let mut polls = 0;
            poll_fn(|cx| {
                polls += 1;
                let passed = timer.poll_passed(start + Duration::from_secs(seconds), cx);
                if passed || after == 0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            assert!(start.elapsed() >= Duration::from_secs(after) && polls <= 4, "{polls} polls");
        }
    }
}
