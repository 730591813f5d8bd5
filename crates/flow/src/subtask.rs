//! Sub-tasks, each of which is the work of a request on a resource. The scheduler determines their
//! order.
//!
//! Source: document 002 §5.2.2, *Request scheduling and sub-tasks*.
//!
//! A sub-task holds a slot until its future ends, is dropped, or panics. This time counts toward
//! the request's service time. A downstream call reports its own time. Therefore, the time for
//! which a resource (a connection, a thread) is held during the call does not count
//! ([`Context::hold`]).
//!
//! Cost: two lock acquisitions per sub-task. A waiting sub-task has a oneshot channel, and a timer
//! if there is a deadline.

use std::future::Future;
use std::time::Duration;

use curtail_kernel::flow::ResourceId;
use curtail_kernel::stage::JobId;
use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tracing::Instrument as _;
use tracing::field::Empty;

use crate::context::Context;
use crate::reject::{Reason, Rejected};
use crate::span::Wait;
use crate::state::Verdict;

/// A sub-task at its resource. When this is dropped, the sub-task leaves the resource.
struct Slot<'a> {
    context: &'a Context,
    resource: ResourceId,
    job: JobId,
    /// The channel for the verdict, while the sub-task waits.
    verdict: Option<oneshot::Receiver<Verdict>>,
    has_left: bool,
    /// Whether its time counts toward the request's service time.
    serves: bool,
}

impl Context {
    /// Runs a future once a slot of the resource is available. `cost_hint` is its expected time, if
    /// a better estimate than the average of its workflow is known. Dropping the future removes the
    /// sub-task from the queue or frees its slot.
    ///
    /// # Errors
    /// Fails if the request is late, in which case the future is not started, or if the resource's
    /// queue is full.
    ///
    /// # Panics
    /// Panics if the process has no such resource, which is a bug in the caller.
    pub async fn subtask<F: Future>(
        &self,
        resource: &str,
        cost_hint: Option<Duration>,
        work: F,
    ) -> Result<F::Output, Rejected> {
        self.with_slot(resource, cost_hint, true, work).await
    }

    /// Runs a future as [`Self::subtask`] does, but for a downstream call. The response reports the
    /// time spent on the call, so that time does not count here.
    ///
    /// # Errors
    /// See [`Self::subtask`].
    ///
    /// # Panics
    /// See [`Self::subtask`].
    pub async fn hold<F: Future>(&self, resource: &str, calls: F) -> Result<F::Output, Rejected> {
        self.with_slot(resource, None, false, calls).await
    }

    async fn with_slot<F: Future>(
        &self,
        resource: &str,
        cost_hint: Option<Duration>,
        serves: bool,
        work: F,
    ) -> Result<F::Output, Rejected> {
        let known = self.flow().0.resources.iter().position(|known| known == resource);
        let Some(at) = known else { panic!("{resource:?} is not a resource of this process") };
        let resource_id = ResourceId(at as u32);
        let (service, workflow) = (self.flow().service(), self.workflow());
        let wait = Wait::begin(tracing::debug_span!(
            "subtask",
            service,
            workflow,
            resource,
            wait_us = Empty,
            outcome = Empty
        ));
        let slot = self.slot(resource_id, cost_hint, serves).await;
        let span = wait.end(&slot);
        let slot = slot?;
        let output = work.instrument(span).await;
        drop(slot);
        Ok(output)
    }

    async fn slot(
        &self,
        resource: ResourceId,
        hint: Option<Duration>,
        serves: bool,
    ) -> Result<Slot<'_>, Reason> {
        let hint_ns = hint.map(|hint| u64::try_from(hint.as_nanos()).unwrap_or(u64::MAX));
        let standing = self.standing();
        let (job, verdict) = {
            let (mut state, now) = self.flow().0.lock();
            state.subtask(now, resource, self.id(), &standing, hint_ns)?
        };
        let mut slot = Slot { context: self, resource, job, verdict, has_left: false, serves };
        slot.turn().await?;
        Ok(slot)
    }
}

impl Slot<'_> {
    async fn turn(&mut self) -> Verdict {
        let Some(verdict) = &mut self.verdict else { return Ok(()) };
        let inner = &self.context.flow().0;
        let received = match self.context.deadline().filter(|_| inner.drops_late) {
            Some(deadline) => match timeout_at(deadline, verdict).await {
                Ok(received) => received,
                Err(_) => {
                    let (mut state, _) = inner.lock();
                    state.resources[self.resource.0 as usize].late += 1;
                    return Err(Reason::Late);
                }
            },
            None => verdict.await,
        };
        self.verdict = None;
        // The state keeps the sender until it has sent the verdict.
        let verdict = received.unwrap_or(Err(Reason::Full));
        self.has_left = verdict.is_err();
        verdict
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let held_ns = {
            let (mut state, now) = self.context.flow().0.lock();
            // Verdicts are sent while the lock is held. A sub-task that was found to be late has
            // already left.
            let verdict = self.verdict.as_mut().map(oneshot::Receiver::try_recv);
            if matches!(verdict, Some(Ok(Err(_)))) {
                return;
            }
            state.leave(now, self.resource, self.job)
        };
        if held_ns > 0 && self.serves {
            self.context.served(Duration::from_nanos(held_ns));
        }
    }
}
