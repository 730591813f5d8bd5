//! A thread that waits on a condition variable.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::OnTimeout;
use super::table::TimerTable;

/// How long the thread outlives the last of its users.
const LOOK_UP: Duration = Duration::from_secs(1);

pub(super) struct Shared {
    entries: Mutex<TimerTable>,
    earlier: Condvar,
}

impl Shared {
    pub(super) fn start() -> Arc<Self> {
        let shared = Arc::new(Self { entries: Mutex::default(), earlier: Condvar::new() });
        let thread = Arc::downgrade(&shared);
        std::thread::Builder::new()
            .name("curtail-timers".into())
            .spawn(move || run(&thread))
            .expect("a thread for the timers");
        shared
    }

    pub(super) fn add(&self, at: Instant, owner: Weak<dyn OnTimeout>) {
        let first = self.entries.lock().unwrap_or_else(PoisonError::into_inner).add(at, owner);
        if first {
            self.earlier.notify_one();
        }
    }

    /// Waits for the first entry that is due, for a second at most.
    fn next(&self) -> Option<Weak<dyn OnTimeout>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(owner) = entries.take_expired(now) {
            return Some(owner);
        }
        let wait = entries.first().map_or(LOOK_UP, |first| (first - now).min(LOOK_UP));
        // Whatever ends the wait, the caller asks again.
        drop(self.earlier.wait_timeout(entries, wait));
        None
    }
}

/// The thread: ends within a second of its last user.
fn run(shared: &Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        if let Some(owner) = shared.next() {
            super::wake(&owner);
        }
    }
}
