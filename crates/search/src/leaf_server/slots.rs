//! The slots of a leaf, and the bounded queue before them: the kernel's server-side stage, in real time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curtail_kernel::stage::{Admission, JobId, Stage};
use curtail_kernel::{Feedback, Timestamp};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The slots of a leaf: first come, first served, and no newcomer gets in between.
#[derive(Debug)]
pub(super) struct Slots {
    state: Mutex<State>,
    since: Instant,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// By job: who waits for it to start.
    waiting: Vec<Option<oneshot::Sender<()>>>,
    /// Names of jobs that may be used again.
    free: Vec<u32>,
}

/// A slot, taken until it is dropped.
#[derive(Debug)]
pub(super) struct Slot(Place);

/// The queue is full.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// A job at the stage, until it is dropped.
#[derive(Debug)]
struct Place {
    slots: Arc<Slots>,
    job: u32,
    has_left: bool,
}

impl Slots {
    pub(super) fn new(total: u32, queue: u32) -> Arc<Self> {
        let stage = Stage::new(total, queue);
        let state = State { stage, waiting: Vec::new(), free: Vec::new() };
        Arc::new(Self { state: Mutex::new(state), since: Instant::now() })
    }

    /// Takes a slot, after those who came before. Dropping the future leaves the queue.
    pub(super) async fn take(self: &Arc<Self>) -> Result<Slot, Full> {
        let (place, starts) = self.arrive()?;
        if let Some(starts) = starts {
            // It is sent under the lock, before its sender is dropped.
            let _ = starts.await;
        }
        Ok(Slot(place))
    }

    fn arrive(self: &Arc<Self>) -> Result<(Place, Option<oneshot::Receiver<()>>), Full> {
        let now = self.now();
        let mut state = self.lock();
        let job = state.free.pop().unwrap_or(state.waiting.len() as u32);
        if job as usize == state.waiting.len() {
            state.waiting.push(None);
        }
        let starts = match state.stage.arrive(now, JobId(job)) {
            Admission::Starts => None,
            Admission::Waits => {
                let (sender, receiver) = oneshot::channel();
                state.waiting[job as usize] = Some(sender);
                Some(receiver)
            }
            Admission::Refused => {
                state.free.push(job);
                return Err(Full);
            }
        };
        Ok((Place { slots: Arc::clone(self), job, has_left: false }, starts))
    }

    /// How many slots are taken.
    pub(super) fn busy(&self) -> u32 {
        self.lock().stage.running()
    }

    /// How many queries wait.
    pub(super) fn waiting(&self) -> u32 {
        self.lock().stage.waiting()
    }

    /// What a probe is answered: how many queries are there, and what they took of late, in ns.
    pub(super) fn probe(&self) -> (u32, u64) {
        self.lock().stage.probe()
    }

    fn leave(&self, job: u32) -> Option<Feedback> {
        let now = self.now();
        let mut state = self.lock();
        let left = state.stage.finish(now, JobId(job));
        if left.is_none() {
            state.stage.withdraw(JobId(job));
            state.waiting[job as usize] = None;
        }
        state.free.push(job);
        let left = left?;
        if let Some(next) = left.next
            && let Some(starts) = state.waiting[next.0 as usize].take()
        {
            // One that is gone by now leaves as soon as its place is dropped.
            let _ = starts.send(());
        }
        Some(left.feedback)
    }

    fn now(&self) -> Timestamp {
        Timestamp(u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Gives the slot back; what the response may say of the leaf.
    pub(super) fn finish(mut self) -> Option<Feedback> {
        self.0.has_left = true;
        self.0.slots.leave(self.0.job)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.has_left {
            self.slots.leave(self.job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slots_go_to_those_who_wait_longest_and_say_how_long_the_queue_is() {
        let slots = Slots::new(1, 2);
        let first = slots.take().await.expect("it is free");
        let mut second = Box::pin(slots.take());
        let mut third = Box::pin(slots.take());
        assert!(futures_util::poll!(&mut second).is_pending());
        assert!(futures_util::poll!(&mut third).is_pending());
        assert_eq!(slots.take().await.expect_err("two wait"), Full);
        assert_eq!((slots.busy(), slots.waiting()), (1, 2));
        drop(second);
        assert_eq!((slots.busy(), slots.waiting()), (1, 1), "it has left the queue");
        tokio::time::advance(std::time::Duration::from_millis(5)).await;
        let feedback = first.finish().expect("it ran");
        assert_eq!(feedback, Feedback { queue: 1, service_ns: 5_000_000 });
        let third = third.await.expect("its turn");
        let fourth = Box::pin(slots.take());
        drop(third);
        assert!(fourth.await.is_ok() && slots.probe().0 == 0);
    }
}
