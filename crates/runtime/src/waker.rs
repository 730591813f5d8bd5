//! Slots for wakers.

use std::task::Waker;

/// Sets a slot. A waker of the same task is not cloned again.
pub(crate) fn set(slot: &mut Option<Waker>, waker: &Waker) {
    match slot {
        Some(old) => old.clone_from(waker),
        None => *slot = Some(waker.clone()),
    }
}

/// Resumes a task.
pub(crate) fn resume(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
