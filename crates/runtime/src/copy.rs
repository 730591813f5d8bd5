//! A copy: its future, and who may end it.
//!
//! The future of the query polls the copies of the query, so a copy costs no task. A copy that
//! outlives its query gets a task of its own ([`Detached`]). Any thread may stop a copy. Then the
//! copy ends at once, or, if it is being polled, at the end of that poll.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::task::{Context, Poll, Waker};

use curtail_http::grpc::PushBack;
use curtail_kernel::{CopyId, Event, Outcome, Role, ServerId};

use crate::failure::Failure;
use crate::inner::Inner;
use crate::tables::{Mail, QueryKey};
use crate::transport::{CopyDriver, CopyHandle, Head, Listener, Tail, Transport};
use crate::waker;

/// Sends a copy.
type Sending<R> = Pin<Box<dyn Future<Output = Result<Head<R>, Failure>> + Send>>;

/// A copy that was started.
pub(crate) struct Copy<T: Transport> {
    id: CopyId,
    server: ServerId,
    role: Role,
    /// Number of copies of the query that were started before.
    earlier: u32,
    /// Locked while the copy is polled. The cell may be locked meanwhile, but not the reverse.
    phase: Mutex<Phase<T::Response>>,
    /// Whether the copy must stop.
    must_stop: AtomicBool,
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
enum Step<R> {
    Head(Head<R>),
    End(Outcome, u64),
    Failed(Failure),
}

impl<T: Transport> Copy<T> {
    pub(crate) fn new(id: CopyId, server: ServerId, role: Role, earlier: u32) -> Self {
        let (phase, task) = (Mutex::new(Phase::Unsent), Mutex::default());
        Self { id, server, role, earlier, phase, must_stop: AtomicBool::new(false), task }
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

    /// Begins to send the copy. The first poll does the work.
    pub(crate) fn send(&self, inner: &Arc<Inner<T>>, request: T::Request) {
        let mut phase = self.lock();
        if !matches!(*phase, Phase::Unsent) {
            return;
        }
        let (inner, server) = (Arc::clone(inner), self.server);
        let (copy, role, earlier) = (self.id, self.role, self.earlier);
        // The future borrows the transport, and is large.
        *phase = Phase::Sending(Box::pin(async move {
            let cell = Arc::downgrade(&inner) as Weak<dyn Listener>;
            inner.transport.send(server, request, CopyHandle { cell, copy, role, earlier }).await
        }));
    }

    /// Stops the copy, which closes its connection. Returns whether the caller must report the end:
    /// the copy may have ended before, and a poll that is running right now reports the end itself.
    pub(crate) fn stop(&self) -> bool {
        self.must_stop.store(true, Ordering::SeqCst);
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

    /// Polls until the next report to the cell. Returns the decisions about `own`, the query that
    /// polls. A copy that was stopped is never ready.
    pub(crate) fn poll_step(
        &self,
        inner: &Inner<T>,
        context: &mut Context<'_>,
        own: Option<QueryKey>,
    ) -> Poll<Mail<T>> {
        let step = self.lock().poll(context);
        let Poll::Ready(step) = step else {
            if self.must_stop.load(Ordering::SeqCst) && self.stop() {
                inner.stopped(self.id);
            }
            return Poll::Pending;
        };
        Poll::Ready(match step {
            Step::Head(head) => self.head_arrived(inner, head, own),
            Step::End(outcome, bytes) => {
                inner.received(self.id, bytes);
                inner.finished(self.id, outcome, None, own)
            }
            Step::Failed(why) => inner.failed(self.id, why, own),
        })
    }

    fn head_arrived(
        &self,
        inner: &Inner<T>,
        head: Head<T::Response>,
        own: Option<QueryKey>,
    ) -> Mail<T> {
        let Head { response, outcome, push_back, feedback, bytes, tail } = head;
        if let Some(feedback) = feedback {
            inner.load_reported(self.id, feedback);
        }
        match push_back {
            Some(PushBack::After(after)) => {
                let ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
                inner.feed(&Event::RetryAfter { server: self.server, ns });
            }
            Some(PushBack::Never) => inner.feed(&Event::ForbidRetry { copy: self.id }),
            None => {}
        }
        let Some(tail) = tail else {
            inner.received(self.id, bytes);
            return inner.finished(self.id, outcome, Some(response), own);
        };
        *self.lock() = Phase::Tail(outcome, tail);
        inner.responded(self.id, outcome, response, own).unwrap_or_else(|| {
            if self.stop() {
                inner.stopped(self.id);
            }
            Mail::default()
        })
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

/// A copy whose query has a result.
struct Outlived<T: Transport> {
    inner: Arc<Inner<T>>,
    copy: Arc<Copy<T>>,
}

impl<T: Transport> Outlived<T> {
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut task = self.copy.task.lock().unwrap_or_else(PoisonError::into_inner);
        waker::set(&mut task, context.waker());
        drop(task);
        while self.copy.poll_step(&self.inner, context, None).is_ready() {}
        if self.copy.is_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The task of a copy that outlives its query.
pub(crate) struct Detached<T: Transport>(Outlived<T>);

impl<T: Transport> Detached<T> {
    pub(crate) fn new(inner: Arc<Inner<T>>, copy: Arc<Copy<T>>) -> Self {
        Self(Outlived { inner, copy })
    }
}

impl<T: Transport> Future for Detached<T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll(context)
    }
}

impl<T: Transport> Drop for Detached<T> {
    fn drop(&mut self) {
        let Outlived { inner, copy } = &self.0;
        if !copy.stop() {
        } else if SPAWNING.get() {
            // The runtime has shut down. A report would start the next copy, which would also end
            // here, and the stack would grow with every queued query.
            inner.close();
        } else {
            inner.stopped(copy.id());
        }
    }
}

/// Returns the driver of a copy whose response has begun and not ended.
pub(crate) fn driver<T: Transport>(inner: Arc<Inner<T>>, copy: Arc<Copy<T>>) -> CopyDriver {
    CopyDriver(Box::pin(Attached(Outlived { inner, copy })))
}

struct Attached<T: Transport>(Outlived<T>);

impl<T: Transport> Future for Attached<T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll(context)
    }
}

impl<T: Transport> Drop for Attached<T> {
    fn drop(&mut self) {
        self.0.inner.detach([Arc::clone(&self.0.copy)]);
    }
}

thread_local! {
    /// Whether a task is being started on this thread.
    static SPAWNING: Cell<bool> = const { Cell::new(false) };
}

/// Starts a task. If the runtime has shut down, it drops the task at once.
pub(crate) fn spawning<V>(spawn: impl FnOnce() -> V) -> V {
    SPAWNING.set(true);
    let spawned = spawn();
    SPAWNING.set(false);
    spawned
}
