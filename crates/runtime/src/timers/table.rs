//! Timers and their owners, sorted by time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::Instant;

use super::OnTimeout;

/// Timers that have not expired. O(log n) to add and to take.
#[derive(Default)]
pub(super) struct TimerTable {
    /// By time, and of one time in the order in which they were added.
    entries: BTreeMap<(Instant, u64), Weak<dyn OnTimeout>>,
    added: u64,
}

impl TimerTable {
    /// True if it is now the first.
    pub(super) fn add(&mut self, at: Instant, owner: Weak<dyn OnTimeout>) -> bool {
        let first = self.first().is_none_or(|first| at < first);
        self.added += 1;
        self.entries.insert((at, self.added), owner);
        first
    }

    /// When the first expires.
    pub(super) fn first(&self) -> Option<Instant> {
        self.entries.first_key_value().map(|(&(at, _), _)| at)
    }

    /// The first, if it has expired.
    pub(super) fn take_expired(&mut self, now: Instant) -> Option<Weak<dyn OnTimeout>> {
        let first = self.entries.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}

/// Expires the timers of [`Timers::manual`](super::Timers::manual) on demand, for tests that
/// advance tokio's paused clock themselves. Timers then expire one after the other, exact to the
/// nanosecond. Clones share the timers.
#[derive(Clone, Default)]
pub struct ManualTimers(Arc<Mutex<TimerTable>>);

impl ManualTimers {
    pub(super) fn lock(&self) -> MutexGuard<'_, TimerTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time of the first timer.
    pub fn first(&self) -> Option<Instant> {
        self.lock().first()
    }

    /// Wakes the owner of the first timer if that timer has expired according to tokio's clock.
    /// Returns whether it has expired.
    pub fn wake_first(&self) -> bool {
        // The owner may add another timer.
        let expired = self.lock().take_expired(Instant::now());
        expired.inspect(super::wake).is_some()
    }
}
