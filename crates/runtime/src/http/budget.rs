//! The bytes that the buffers for bodies may hold, in a whole process.
//!
//! Every buffer counts what it holds. Once the budget is spent, bodies are no longer read whole before
//! they are sent, streams keep little, and the caller lets new requests with bodies wait. Bytes that
//! have already been accepted are never refused, so the count may exceed the limit by the small
//! buffers. Cost: an atomic addition per piece of a body.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of bytes that a stream may keep while the budget is spent.
const SMALL: usize = 16 << 10;

/// A limit that all buffers share. Clones share it, too.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    used: AtomicUsize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Budget {
    /// Creates a budget of this number of bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Shared { limit, used: AtomicUsize::new(0) }))
    }

    /// Returns the number of bytes that are in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Returns whether no byte is left.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.used() >= self.0.limit
    }

    /// Counts a buffer of this size, if it fits.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Option<Charge> {
        let fits = self.used().checked_add(bytes).is_some_and(|sum| sum <= self.0.limit);
        fits.then(|| self.charge(bytes))
    }

    /// Counts a buffer of this size.
    pub(super) fn charge(&self, bytes: usize) -> Charge {
        let mut charge = Charge { budget: self.clone(), bytes: 0 };
        charge.set(bytes);
        charge
    }

    /// Returns the number of bytes that a stream may keep, at most `room`.
    pub(super) fn room(&self, room: usize) -> usize {
        if self.is_spent() { room.min(SMALL) } else { room }
    }
}

/// The size of a buffer, which counts until this is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Budget,
    bytes: usize,
}

impl Charge {
    /// Sets the size.
    pub fn set(&mut self, bytes: usize) {
        let used = &self.budget.0.used;
        if bytes >= self.bytes {
            used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_used_again() {
        let budget = Budget::new(100_000);
        let whole = budget.take(60_000).expect("it fits");
        assert!(budget.take(60_000).is_none());
        let mut stream = budget.charge(0);
        stream.set(50_000);
        assert!(budget.is_spent() && budget.room(1 << 20) == SMALL);
        drop(whole);
        assert_eq!((budget.used(), budget.room(1 << 20)), (50_000, 1 << 20));
        stream.set(10);
        assert_eq!(budget.used(), 10);
        drop(stream);
        assert_eq!(budget.used(), 0);
    }
}
