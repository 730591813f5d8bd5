//! Admits requests at the rate of their workflow, or rejects them before any work has been done.
//!
//! Source: document 002 §5.2.5, *Admission control and drop policies*.
//!
//! Cost: the lock is taken once when a request arrives, and once when it ends. Each waiting request
//! also has a oneshot channel.

use std::time::Duration;

use curtail_kernel::Timestamp;
use curtail_kernel::flow::{Announcement, Progress, WorkflowId};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::field::Empty;

use crate::context::Context;
use crate::flow::{Class, Flow};
use crate::metadata::CallMeta;
use crate::reject::{Reason, Rejected};
use crate::span::Wait;
use crate::state::{Entry, Verdict};

/// The properties of an arriving request.
#[derive(Clone, Debug, Default)]
pub struct RequestMeta {
    /// The time remaining until its deadline.
    pub timeout: Option<Duration>,
    /// The metadata from its caller. `None` if the request enters the system at this process.
    pub call: Option<CallMeta>,
}

/// An admitted request. Dropping it counts as a failure.
#[derive(Debug)]
pub struct Admitted {
    context: Context,
    since: Timestamp,
    is_entry: bool,
    has_ended: bool,
}

impl Admitted {
    /// Returns the context of the request. Clones share it.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Ends the request. Only successful requests count toward the workflow's latency.
    pub fn finish(mut self, is_good: bool) {
        self.end(is_good, None);
    }

    /// Ends the request as [`Self::finish`] does, and returns the announcement for the caller.
    pub(crate) fn finish_for(mut self, is_good: bool, caller: Option<u32>) -> Option<Announcement> {
        self.end(is_good, caller)
    }

    fn end(&mut self, is_good: bool, caller: Option<u32>) -> Option<Announcement> {
        self.has_ended = true;
        let (workflow, progress) = (self.context.id(), self.context.progress());
        let inner = &self.context.flow().0;
        let deadline = self.context.deadline().map(|instant| inner.timestamp(instant));
        let (mut state, now) = inner.lock();
        let counts = &mut state.counts[workflow.0 as usize];
        match deadline {
            Some(deadline) if is_good && now <= deadline => counts.met += 1,
            Some(_) => counts.missed += 1,
            None => {}
        }
        if is_good {
            state.process.completed(now, workflow, now.since(self.since));
            if self.is_entry {
                state.totals[workflow.0 as usize].add(&progress);
            }
        }
        state.announcement(workflow, caller?)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(false, None);
        }
    }
}

/// A request that is waiting to be admitted. Dropping it withdraws the request.
struct Waiting<'a> {
    flow: &'a Flow,
    key: usize,
    verdict: oneshot::Receiver<Verdict>,
    is_over: bool,
}

impl Waiting<'_> {
    async fn turn(mut self) -> Verdict {
        let verdict = (&mut self.verdict).await;
        self.is_over = true;
        // The state keeps the sender until it has sent the verdict.
        verdict.unwrap_or(Err(Reason::Full))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (mut state, _) = self.flow.0.lock();
        // Verdicts are sent while the lock is held, so a request that has no verdict is still
        // waiting.
        if self.verdict.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
            state.withdraw(self.key);
        }
    }
}

impl Flow {
    /// Waits until a request that belongs to a workflow is admitted. Dropping the future withdraws
    /// the request.
    ///
    /// # Errors
    /// Fails if the request cannot meet its deadline, or if the queue is full.
    pub async fn admit(&self, workflow: &str, meta: &RequestMeta) -> Result<Admitted, Rejected> {
        self.admit_class(self.0.classify(workflow), meta).await
    }

    pub(crate) async fn admit_class(
        &self,
        class: Class,
        meta: &RequestMeta,
    ) -> Result<Admitted, Rejected> {
        let (service, workflow) = (self.service(), class.name.as_str());
        let wait = Wait::begin(tracing::debug_span!(
            "admission",
            service,
            workflow,
            wait_us = Empty,
            outcome = Empty
        ));
        let timeout = [meta.timeout, self.0.own_deadline(class.id)].into_iter().flatten().min();
        // A deadline that the clock cannot represent is treated as no deadline.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let (entry, progress) = self.arrive(class.id, deadline, meta);
        let verdict = match entry {
            Ok(Entry::Admitted) => Ok(()),
            Ok(Entry::Waits(key, verdict)) => {
                Waiting { flow: self, key, verdict, is_over: false }.turn().await
            }
            Err(reason) => Err(reason),
        };
        wait.end(&verdict);
        verdict?;
        Ok(Admitted {
            context: Context::new(self.clone(), class, deadline, progress),
            since: self.0.timestamp(Instant::now()),
            is_entry: meta.call.is_none(),
            has_ended: false,
        })
    }

    fn arrive(
        &self,
        workflow: WorkflowId,
        deadline: Option<Instant>,
        meta: &RequestMeta,
    ) -> (Result<Entry, Reason>, Progress) {
        let deadline = self.0.deadline(deadline);
        let (mut state, now) = self.0.lock();
        state.advance(now);
        let progress = match &meta.call {
            Some(call) => {
                state.record_call(now, workflow, call);
                call.progress()
            }
            None => Progress::begin(&state.totals[workflow.0 as usize]),
        };
        let entry = state.arrive(now, workflow, deadline);
        self.0.arm(&mut state);
        (entry, progress)
    }
}
