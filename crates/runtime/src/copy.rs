//! A copy: its future, and who may end it.
//!
//! Any thread may stop a copy. Then the copy ends at once, or, if it is being polled, at the end of
//! that poll.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::task::{Context, Poll, Waker};

use curtail_kernel::{CopyId, Outcome, ServerId};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::observe::CopyInfo;
use crate::transport::{CopyContext, Head, Listener, Tail, Transport};
use crate::waker;

/// Sends a copy.
pub(crate) type Sending<R> = Pin<Box<dyn Future<Output = Result<Head<R>, Failure>> + Send>>;

/// A copy that was started.
pub(crate) struct Copy<T: Transport> {
    id: CopyId,
    info: CopyInfo,
    /// Number of copies of the query that were sent before.
    attempt: u32,
    /// Locked while the copy is polled. The cell may be locked meanwhile, but not the reverse.
    phase: Mutex<Phase<T::Response>>,
    /// Whether the copy must stop.
    must_stop: AtomicBool,
    /// Whether it stops only together with its query.
    is_bound: AtomicBool,
    /// The task of a copy that outlived its query.
    task: Mutex<Option<Waker>>,
}

enum Phase<R> {
    /// It has not been sent.
    Unsent,
    /// Until the head of the response.
    Sending(Sending<R>),
    /// Until the end of the response.
    Tail(Outcome, Tail),
    /// The end was found, or the copy was stopped.
    Over,
}

/// What a poll of a copy has found.
pub(crate) enum Step<R> {
    Head(Head<R>),
    End(Outcome, u64),
    Failed(Failure),
    /// It was stopped during the poll.
    Stopped,
}

impl<T: Transport> Copy<T> {
    pub(crate) fn new(id: CopyId, info: CopyInfo, attempt: u32) -> Self {
        let (phase, task) = (Mutex::new(Phase::Unsent), Mutex::default());
        let (must_stop, is_bound) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { id, info, attempt, phase, must_stop, is_bound, task }
    }

    pub(crate) fn id(&self) -> CopyId {
        self.id
    }

    fn lock(&self) -> MutexGuard<'_, Phase<T::Response>> {
        // A transport that panics is caught, so nothing else can poison the lock.
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.lock(), Phase::Over)
    }

    pub(crate) fn server(&self) -> ServerId {
        self.info.server
    }

    /// Returns the copy for its transport.
    pub(crate) fn context(
        &self,
        cell: Weak<dyn Listener>,
        deadline: Option<Instant>,
    ) -> CopyContext {
        let (copy, info, attempt) = (self.id, self.info, self.attempt);
        CopyContext { cell, copy, info, attempt, deadline }
    }

    /// Begins to send the copy, unless it was stopped before. The first poll does the work.
    pub(crate) fn begin(&self, sending: impl FnOnce() -> Sending<T::Response>) {
        let mut phase = self.lock();
        if matches!(*phase, Phase::Unsent) {
            *phase = Phase::Sending(sending());
        }
    }

    /// Waits for the end of the response, after its head.
    pub(crate) fn receive(&self, outcome: Outcome, tail: Tail) {
        *self.lock() = Phase::Tail(outcome, tail);
    }

    /// From now on, the copy stops only together with its query.
    pub(crate) fn bind(&self) {
        self.is_bound.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_bound(&self) -> bool {
        self.is_bound.load(Ordering::SeqCst)
    }

    /// The query has ended. Returns whether the copy should have stopped before.
    pub(crate) fn unbind(&self) -> bool {
        self.is_bound.swap(false, Ordering::SeqCst) && self.must_stop.load(Ordering::SeqCst)
    }

    /// Sets the task that is resumed when the copy is stopped.
    pub(crate) fn set_task(&self, task: &Waker) {
        waker::set(&mut self.task.lock().unwrap_or_else(PoisonError::into_inner), task);
    }

    /// Stops the copy, which closes its connection. Returns whether the caller must report the end:
    /// the copy may have ended before, it may be bound to its query, and a poll that is running
    /// right now reports the end itself.
    pub(crate) fn stop(&self) -> bool {
        self.must_stop.store(true, Ordering::SeqCst);
        if self.is_bound() {
            return false;
        }
        let taken = match self.phase.try_lock() {
            Ok(mut phase) => std::mem::replace(&mut *phase, Phase::Over),
            Err(TryLockError::Poisoned(phase)) => {
                std::mem::replace(&mut *phase.into_inner(), Phase::Over)
            }
            // It is being polled. The poll ends with a look at `must_stop`.
            Err(TryLockError::WouldBlock) => return false,
        };
        if matches!(taken, Phase::Over) {
            return false;
        }
        waker::resume(self.task.lock().unwrap_or_else(PoisonError::into_inner).take());
        true
    }

    /// Polls until something is found. A copy that has been stopped is never ready.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Step<T::Response>> {
        let step = self.lock().poll(context);
        if step.is_pending() && self.must_stop.load(Ordering::SeqCst) && self.stop() {
            return Poll::Ready(Step::Stopped);
        }
        step
    }
}

impl<R> Phase<R> {
    /// Polls, and moves to the next phase.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Step<R>> {
        // A panic is a bug in the transport. For the kernel, the server failed, so the client may
        // still get a response.
        let polled = match self {
            Self::Sending(send) => {
                let poll = || send.as_mut().poll(context);
                let polled = catch_unwind(AssertUnwindSafe(poll));
                polled.map(|polled| polled.map(|sent| sent.map_or_else(Step::Failed, Step::Head)))
            }
            Self::Tail(outcome, tail) => {
                let outcome = *outcome;
                let poll = || tail.as_mut().poll(context);
                let polled = catch_unwind(AssertUnwindSafe(poll));
                polled.map(|polled| {
                    polled.map(|end| {
                        end.map_or_else(Step::Failed, |end| {
                            Step::End(end.outcome.unwrap_or(outcome), end.bytes)
                        })
                    })
                })
            }
            Self::Unsent | Self::Over => return Poll::Pending,
        };
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(step)) => {
                *self = Self::Over;
                Poll::Ready(step)
            }
            Err(_) => {
                *self = Self::Over;
                Poll::Ready(Step::Failed(Failure::Panicked))
            }
        }
    }
}
