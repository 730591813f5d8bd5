//! Timers that go off when somebody says so: for those who move tokio's paused clock by hand, and
//! want what is due to happen then, to the nanosecond and one thing after the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::wishes::{Wish, Wishes};

/// Makes timers of [`Timers::by_hand`](super::Timers::by_hand) go off. Clones share them.
#[derive(Clone, Default)]
pub struct Hand(Arc<Mutex<Wishes>>);

impl std::fmt::Debug for Hand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Hand").field(&self.first()).finish()
    }
}

impl Hand {
    fn lock(&self) -> MutexGuard<'_, Wishes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, wish: Wish) {
        self.lock().add(wish);
    }

    /// When the first of those who wait wants to be woken.
    #[must_use]
    pub fn first(&self) -> Option<Instant> {
        self.lock().first()
    }

    /// Wakes the first, if its time has come by tokio's clock; false if it has not.
    pub fn wake_first(&self) -> bool {
        // Who is woken may wish again.
        let due = self.lock().take_due(Instant::now());
        due.is_some_and(|who| {
            super::wake(&who);
            true
        })
    }
}
