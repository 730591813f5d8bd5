//! Drives copies: sends and polls them, and reports to the cell what they found.
//!
//! The future of the query polls the copies of the query, so a copy costs no task. A copy that
//! outlives its query gets a task of its own, or is polled by the receiver of its response.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use curtail_http::grpc::PushBack;
use curtail_kernel::Event;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::copy::{Copy, Step};
use crate::inner::Inner;
use crate::tables::{Mail, QueryKey};
use crate::transport::{CopyDriver, Head, Listener, Transport};

/// Begins to send a copy. The first poll does the work.
pub(crate) fn send<T: Transport>(
    inner: &Arc<Inner<T>>,
    copy: &Copy<T>,
    request: T::Request,
    deadline: Option<Instant>,
) {
    copy.begin(|| {
        let (inner, server) = (Arc::clone(inner), copy.server());
        let context = copy.context(Arc::downgrade(&inner) as Weak<dyn Listener>, deadline);
        // The future borrows the transport, and is large.
        Box::pin(async move { inner.transport.send(server, request, context).await })
    });
}

/// Polls a copy until its next report to the cell. Returns the decisions about `own`, the query that
/// polls. A copy that was stopped is never ready.
pub(crate) fn poll<T: Transport>(
    inner: &Inner<T>,
    copy: &Copy<T>,
    context: &mut Context<'_>,
    own: Option<QueryKey>,
) -> Poll<Mail<T>> {
    let id = copy.id();
    Poll::Ready(match ready!(copy.poll(context)) {
        Step::Head(head) => head_arrived(inner, copy, head, own),
        Step::End(outcome, bytes) => {
            inner.received(id, bytes);
            inner.finished(id, outcome, None, own)
        }
        Step::Failed(why) => inner.failed(id, why, own),
        Step::Stopped => {
            inner.stopped(id);
            return Poll::Pending;
        }
    })
}

fn head_arrived<T: Transport>(
    inner: &Inner<T>,
    copy: &Copy<T>,
    head: Head<T::Response>,
    own: Option<QueryKey>,
) -> Mail<T> {
    let Head { response, outcome, push_back, feedback, bytes, tail } = head;
    let id = copy.id();
    if let Some(feedback) = feedback {
        inner.load_reported(id, feedback);
    }
    match push_back {
        Some(PushBack::After(after)) => {
            let ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
            inner.feed(&Event::RetryAfter { server: copy.server(), ns });
        }
        Some(PushBack::Never) => inner.feed(&Event::ForbidRetry { copy: id }),
        None => {}
    }
    let Some(tail) = tail else {
        inner.received(id, bytes);
        return inner.finished(id, outcome, Some(response), own);
    };
    copy.receive(outcome, tail);
    inner.responded(id, outcome, response, own).unwrap_or_else(|| {
        stop(inner, copy);
        Mail::default()
    })
}

/// Stops a copy, and reports its end.
pub(crate) fn stop<T: Transport>(inner: &Inner<T>, copy: &Copy<T>) {
    if copy.stop() {
        inner.stopped(copy.id());
    }
}

/// Lets the copies of a query that has ended run on in tasks of their own.
pub(crate) fn detach<T: Transport>(
    inner: &Arc<Inner<T>>,
    copies: impl IntoIterator<Item = Arc<Copy<T>>>,
) {
    for copy in copies.into_iter().filter(|copy| !copy.is_over()) {
        let detached = Outlived { inner: Arc::clone(inner), copy, has_task: true };
        if inner.is_open() {
            // The runtime at hand drives the connection of the copy.
            let runtime = Handle::try_current();
            let runtime = runtime.as_ref().unwrap_or(&inner.runtime);
            spawning(|| runtime.spawn(detached));
        }
    }
}

/// Returns the driver of a copy whose response has begun and not ended.
pub(crate) fn attach<T: Transport>(inner: Arc<Inner<T>>, copy: Arc<Copy<T>>) -> CopyDriver {
    CopyDriver(Box::pin(Outlived { inner, copy, has_task: false }))
}

/// A copy whose query has a result. Its own task polls it, or the receiver of its response.
struct Outlived<T: Transport> {
    inner: Arc<Inner<T>>,
    copy: Arc<Copy<T>>,
    has_task: bool,
}

impl<T: Transport> Future for Outlived<T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.copy.set_task(context.waker());
        while poll(&self.inner, &self.copy, context, None).is_ready() {}
        if self.copy.is_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<T: Transport> Drop for Outlived<T> {
    fn drop(&mut self) {
        let Self { inner, copy, has_task } = self;
        if !*has_task {
            detach(inner, [Arc::clone(copy)]);
        } else if !SPAWNING.get() {
            stop(inner, copy);
        } else if copy.stop() {
            // The runtime has shut down. A report would start the next copy, which would also end
            // here, and the stack would grow with every queued query.
            inner.close();
        }
    }
}

thread_local! {
    /// Whether a task is being started on this thread.
    static SPAWNING: Cell<bool> = const { Cell::new(false) };
}

/// Starts a task. If the runtime has shut down, it drops the task at once.
fn spawning<V>(spawn: impl FnOnce() -> V) -> V {
    SPAWNING.set(true);
    let spawned = spawn();
    SPAWNING.set(false);
    spawned
}
