//! Slots, and the bounded queue before them: first come, first served.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of a leaf. Fair, because tokio's semaphore is: a slot that is given back goes to the
/// query that waits longest, and no newcomer gets in between.
#[derive(Debug)]
pub(super) struct Slots {
    free: Arc<Semaphore>,
    total: u32,
    queue: u32,
    waiting: AtomicU32,
}

/// A slot, taken until it is dropped.
#[derive(Debug)]
pub(super) struct Slot(#[allow(dead_code)] OwnedSemaphorePermit);

/// The queue is full.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// A place in the queue, taken until it is dropped.
struct Place<'a>(&'a AtomicU32);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicU32, most: u32) -> Option<Self> {
        let one_more = |now: u32| (now < most).then(|| now + 1);
        waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(Self(waiting))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Slots {
    pub(super) fn new(total: u32, queue: u32) -> Self {
        let free = Arc::new(Semaphore::new(total as usize));
        Self { free, total, queue, waiting: AtomicU32::new(0) }
    }

    /// Takes a slot, after those who came before. Dropping the future leaves the queue.
    pub(super) async fn take(&self) -> Result<Slot, Full> {
        if let Ok(slot) = Arc::clone(&self.free).try_acquire_owned() {
            return Ok(Slot(slot));
        }
        let place = Place::take(&self.waiting, self.queue).ok_or(Full)?;
        let slot = Arc::clone(&self.free).acquire_owned().await;
        drop(place);
        Ok(Slot(slot.expect("the semaphore stays open")))
    }

    /// How many slots are taken.
    pub(super) fn busy(&self) -> u32 {
        self.total.saturating_sub(self.free.available_permits() as u32)
    }

    /// How many queries wait.
    pub(super) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Acquire)
    }
}
