//! A kernel cell in real time: events in under one short lock, copies out as tasks.

use std::future::Future;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use curtail_kernel::hedge::{Record, Snapshot};
use curtail_kernel::{Core, Event, GroupId, QueryId, Scheduler, ServerId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::inner::Inner;
use crate::observe::{EjectionCause, NoObserver, Observer, ProbeFailure};
use crate::response::{QueryError, QueryResponse};
use crate::timers::Timers;
use crate::transport::Transport;

/// A query to be answered.
#[derive(Clone, Debug)]
pub struct Query<R> {
    /// What is asked.
    pub request: R,
    /// Whose servers can respond.
    pub group: GroupId,
    /// May it run on two servers at once? For idempotent requests only.
    pub may_duplicate: bool,
    /// May it be sent again after a failure?
    pub may_retry: bool,
    /// When its client loses interest, if before the cell's own timeout.
    pub deadline: Option<Instant>,
    /// What its work is expected to cost, in any unit that all queries of the service share; none
    /// where it is not known.
    pub cost_hint: Option<NonZeroU64>,
}

impl<R> Query<R> {
    /// An idempotent query for the first group.
    pub fn new(request: R) -> Self {
        let group = GroupId(0);
        Self {
            request,
            group,
            may_duplicate: true,
            may_retry: true,
            deadline: None,
            cost_hint: None,
        }
    }

    /// The same query for a group.
    #[must_use]
    pub fn to_group(mut self, group: GroupId) -> Self {
        self.group = group;
        self
    }
}

/// A kernel cell in real time. Clones share it.
pub struct Cell<T: Transport> {
    inner: Arc<Inner<T>>,
}

impl<T: Transport> Clone for Cell<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T: Transport> std::fmt::Debug for Cell<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cell")
    }
}

impl<T: Transport> Cell<T> {
    /// A cell without metrics.
    ///
    /// # Panics
    /// Outside of a tokio runtime: copies run as its tasks.
    #[must_use]
    pub fn new(kernel: Box<dyn Scheduler>, transport: T, timers: Timers) -> Self {
        Self::observed(kernel, transport, timers, NoObserver)
    }

    /// A cell that reports to an observer.
    ///
    /// # Panics
    /// Outside of a tokio runtime: copies run as its tasks.
    #[must_use]
    pub fn observed(
        kernel: Box<dyn Scheduler>,
        transport: T,
        timers: Timers,
        observer: impl Observer,
    ) -> Self {
        Self { inner: Inner::new(kernel, transport, timers, Box::new(observer)) }
    }

    /// Asks. The future may be dropped at any time: the query is then abandoned.
    ///
    /// # Panics
    /// When the group does not exist.
    pub fn query(&self, query: Query<T::Request>) -> Reply<T> {
        let (sender, receiver) = oneshot::channel();
        let (query, ticket) = self.inner.arrive(query, sender);
        Reply { receiver, inner: Arc::downgrade(&self.inner), query, ticket }
    }

    /// A server can be used again.
    pub fn server_up(&self, server: ServerId) {
        self.inner.feed(&Event::ServerUp { server });
    }

    /// The probes of a server fail: it gets no new copies, unless no server of its group is up; and
    /// in no case if it does not listen.
    pub fn server_unhealthy(&self, server: ServerId, listens: bool) {
        self.inner.feed(&Event::ServerUnhealthy { server, listens });
        self.transport().close_idle(server);
    }

    /// A server gets no new copies; those that run go on.
    pub fn server_draining(&self, server: ServerId) {
        self.inner.feed(&Event::ServerDraining { server });
        self.transport().close_idle(server);
    }

    /// A server is gone, its copies are lost.
    pub fn server_down(&self, server: ServerId) {
        self.inner.feed(&Event::ServerDown { server });
        self.transport().close_idle(server);
    }

    /// Looks at the kernel. The cell stands still meanwhile: be short.
    pub fn look<V>(&self, with: impl FnOnce(&Core) -> V) -> V {
        self.inner.look(with)
    }

    /// Queries that have not ended.
    #[must_use]
    pub fn live_queries(&self) -> usize {
        self.inner.live_queries()
    }

    /// Queries that are taken for stuck and wait for a rescue now, with a policy that rescues.
    #[must_use]
    pub fn suspects(&self) -> u32 {
        self.inner.suspects()
    }

    /// Moves what the cell has recorded to the end of a list.
    pub(crate) fn publish(&self, into: &mut Vec<Record>) {
        self.inner.publish(into);
    }

    /// What the service has learned.
    pub(crate) fn adopt(&self, snapshot: &Snapshot) {
        self.inner.adopt(snapshot);
    }

    /// Its probes failed: the server gets no new copies, those that run go on.
    pub(crate) fn fails_probes(&self, server: ServerId, why: ProbeFailure) {
        let listens = why != ProbeFailure::ConnectFailed;
        // Copies may have failed while the probe was under way.
        if self.inner.feed_about(server, &Event::ServerUnhealthy { server, listens }) {
            self.inner.ejected(server, EjectionCause::Probes(why));
        }
    }

    /// The transport.
    #[must_use]
    pub fn transport(&self) -> &T {
        &self.inner.transport
    }
}

/// What a query ends with.
type QueryResult<T> =
    Result<QueryResponse<<T as Transport>::Response>, QueryError<<T as Transport>::Response>>;

/// The response to come.
pub struct Reply<T: Transport> {
    receiver: oneshot::Receiver<QueryResult<T>>,
    inner: Weak<Inner<T>>,
    query: QueryId,
    ticket: u64,
}

impl<T: Transport> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reply({:?})", self.query)
    }
}

impl<T: Transport> Future for Reply<T> {
    type Output = QueryResult<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver)
            .poll(context)
            .map(|sent| sent.unwrap_or(Err(QueryError::Closed)))
    }
}

impl<T: Transport> Drop for Reply<T> {
    fn drop(&mut self) {
        // An ended query is not found under its ticket, so this is right after a response, too.
        if let Some(inner) = self.inner.upgrade() {
            inner.abandon(self.query, self.ticket);
        }
    }
}
