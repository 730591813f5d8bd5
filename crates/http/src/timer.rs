//! The timer of a task that has many deadlines and meets most of them.

use std::pin::Pin;
use std::task::Context;

use tokio::time::{Instant, Sleep, sleep_until};

/// Resumes a task at its deadlines. The timer is not set for each of them. It stays set for an earlier
/// deadline, and is set for the current one when that one has passed.
#[derive(Debug, Default)]
pub struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// Returns whether `deadline` has passed. If not, the task is woken when it has, or earlier.
    pub fn poll_passed(&mut self, deadline: Instant, cx: &mut Context<'_>) -> bool {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if deadline < sleep.deadline() {
            sleep.as_mut().reset(deadline);
        }
        // A task that has used up its budget is never ready, but may have missed its deadline.
        while sleep.is_elapsed() || sleep.as_mut().poll(cx).is_ready() {
            if sleep.deadline() >= deadline {
                return true;
            }
            sleep.as_mut().reset(deadline);
        }
        false
    }
}
