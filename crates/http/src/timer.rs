//! The timer of a task that has many deadlines and meets most of them.

use std::pin::Pin;
use std::task::{Context, Waker};

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
                // A task that has used up its budget is never ready, but may have missed its deadline.
                if sleep.as_mut().poll(cx).is_pending() && !sleep.is_elapsed() {
                    self.waker = Some(cx.waker().clone());
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
