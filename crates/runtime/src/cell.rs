//! Runs a kernel cell in real time. Events are processed under one lock, which is held only
//! briefly.

use std::sync::Arc;

use curtail_kernel::hedge::{Records, Snapshot};
use curtail_kernel::{Core, Event, Scheduler, ServerId};

use crate::inner::Inner;
use crate::observe::{EjectionCause, Observer, ProbeFailure};
use crate::query::Query;
use crate::reply::Reply;
use crate::timers::Timers;
use crate::transport::Transport;

/// A kernel cell in real time. Clones share the cell.
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
    /// Creates a cell without an observer.
    ///
    /// # Panics
    /// Panics if called outside a tokio runtime, because copies can outlive their queries as its tasks.
    pub fn new(kernel: Box<dyn Scheduler>, transport: T, timers: Timers) -> Self {
        Self::observed(kernel, transport, timers, ())
    }

    /// Creates a cell that reports to an observer.
    ///
    /// # Panics
    /// Panics if called outside a tokio runtime, because copies can outlive their queries as its tasks.
    pub fn observed(
        kernel: Box<dyn Scheduler>,
        transport: T,
        timers: Timers,
        observer: impl Observer,
    ) -> Self {
        Self { inner: Inner::new(kernel, transport, timers, Box::new(observer)) }
    }

    /// Sends a query. The query arrives now, and its copies are sent while the future is polled. The
    /// future may be dropped at any time, which abandons the query.
    ///
    /// # Panics
    /// Panics if the group does not exist.
    pub fn query(&self, query: Query<T::Request>) -> Reply<T> {
        Reply::new(&self.inner, query)
    }

    /// Marks a server as up.
    pub fn server_up(&self, server: ServerId) {
        self.inner.feed(&Event::ServerUp { server });
    }

    /// Marks a server as unhealthy, because its probes fail. The server gets no new copies unless
    /// no other server of its group is up. A server that does not listen never gets new copies.
    pub fn server_unhealthy(&self, server: ServerId, listens: bool) {
        self.inner.feed(&Event::ServerUnhealthy { server, listens });
        self.transport().close_idle(server);
    }

    /// Marks a server as draining. The server gets no new copies, and its running copies continue.
    pub fn server_draining(&self, server: ServerId) {
        self.inner.feed(&Event::ServerDraining { server });
        self.transport().close_idle(server);
    }

    /// Marks a server as down. The server's copies are lost.
    pub fn server_down(&self, server: ServerId) {
        self.inner.feed(&Event::ServerDown { server });
        self.transport().close_idle(server);
    }

    /// Removes a server from the cell. The server gets no new copies and counts in no fraction of its
    /// groups, and its running copies continue. The transport must be able to reach it until they
    /// have ended ([`curtail_kernel::ServerView::outstanding`]).
    pub fn server_left(&self, server: ServerId) {
        self.inner.feed(&Event::ServerLeft { server });
        self.transport().close_idle(server);
    }

    /// Adds a server in the place of one that has left. The transport must send its copies to the new
    /// server from now on. Nothing is known about the new server, so it starts slowly. Returns false
    /// if it cannot join, because a server has the place or the last one still holds copies.
    pub fn server_joined(&self, server: ServerId) -> bool {
        if self.look(|core| core.server(server).member) {
            return false;
        }
        // Copies that have ended since the last server left may have left connections to it.
        self.transport().close_idle(server);
        let before = self.inner.feed_about(server, &Event::ServerJoined { server });
        !before.member && before.outstanding == 0
    }

    /// Passes the kernel to `with` and returns the result. The cell is locked while `with` runs, so
    /// `with` must return quickly.
    pub fn look<V>(&self, with: impl FnOnce(&Core) -> V) -> V {
        with(self.inner.lock().kernel.core())
    }

    /// Returns the score by which the policy ranks a server. A lower score is better. `None` if the
    /// policy keeps no scores.
    pub fn score(&self, server: ServerId) -> Option<f64> {
        self.inner.lock().kernel.score(server)
    }

    /// Returns the number of queries that have not ended.
    pub fn live_queries(&self) -> usize {
        self.inner.lock().queries.len()
    }

    /// Returns the number of suspects that wait for a rescue. Zero unless the policy rescues.
    pub fn suspects(&self) -> u32 {
        self.inner.lock().kernel.suspects()
    }

    /// Moves what the cell has recorded to the end of a list.
    pub(crate) fn publish(&self, into: &mut Records) {
        self.inner.lock().kernel.publish(into);
    }

    /// What the service has learned: it concerns queries to come, so there is nothing to do now.
    pub(crate) fn adopt(&self, snapshot: &Snapshot) {
        self.inner.lock().kernel.adopt(snapshot);
    }

    /// A probe failed.
    pub(crate) fn probe_failed(&self, server: ServerId, why: ProbeFailure) {
        self.inner.probe_failed(server, why);
    }

    /// Its probes failed: the server gets no new copies, those that run go on.
    pub(crate) fn fails_probes(&self, server: ServerId, why: ProbeFailure) {
        let listens = !why.is_unreachable();
        // Flights may have failed while the probe was under way.
        if self.inner.feed_about(server, &Event::ServerUnhealthy { server, listens }).up {
            self.inner.ejected(server, EjectionCause::Probes(why));
        }
    }

    /// Returns the transport.
    pub fn transport(&self) -> &T {
        &self.inner.transport
    }
}
