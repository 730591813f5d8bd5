//! Timers that go off on demand: for tests that move tokio's paused clock by hand, and
//! want what is due to happen then, to the nanosecond and one thing after the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::table::{TimerEntry, TimerTable};

/// Makes timers of [`Timers::manual`](super::Timers::manual) go off. Clones share them.
#[derive(Clone, Default)]
pub struct ManualTimers(Arc<Mutex<TimerTable>>);

impl std::fmt::Debug for ManualTimers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ManualTimers").field(&self.first()).finish()
    }
}

impl ManualTimers {
    fn lock(&self) -> MutexGuard<'_, TimerTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, entry: TimerEntry) {
        self.lock().add(entry);
    }

    /// When the first of the timers expires.
    #[must_use]
    pub fn first(&self) -> Option<Instant> {
        self.lock().first()
    }

    /// Wakes the first, if its time has come by tokio's clock; false if it has not.
    pub fn wake_first(&self) -> bool {
        // The owner may add another timer.
        let due = self.lock().take_expired(Instant::now());
        due.is_some_and(|owner| {
            super::wake(&owner);
            true
        })
    }
}
