//! Observers of a service, and ready ones for the crates `metrics` and `opentelemetry`.

#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "opentelemetry")]
mod opentelemetry;

use std::sync::Arc;
use std::time::Duration;

use curtail_kernel::{GroupId, Role, ServerId, StartReason, StopReason};
use curtail_runtime::{CopyEnd, CopyInfo, EjectionCause};

use crate::transport::{Replica, Replicas};

#[cfg(feature = "metrics")]
pub use self::metrics::Metrics;
#[cfg(feature = "opentelemetry")]
pub use self::opentelemetry::OpenTelemetry;

/// A copy that has started or ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Copy<'a> {
    /// The name of its shard.
    pub shard: &'a str,
    /// The name of its server.
    pub server: &'a str,
    /// Whether it is the first copy of its query or a duplicate.
    pub role: Role,
    /// Why it started.
    pub why: StartReason,
}

/// Observes a service. The methods are called while a shard is locked, so they should only count and
/// return.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use curtail::Role;
/// use curtail::observe::{Copy, Observer};
///
/// #[derive(Default)]
/// struct Duplicates(AtomicU64);
///
/// impl Observer for Duplicates {
///     fn copy_started(&self, copy: Copy<'_>) {
///         self.0.fetch_add(u64::from(copy.role == Role::Duplicate), Ordering::Relaxed);
///     }
/// }
/// # let _ = Duplicates::default();
/// ```
pub trait Observer: Send + Sync + 'static {
    /// A copy started.
    fn copy_started(&self, _copy: Copy<'_>) {}

    /// A copy was cancelled, because it is no longer needed or its slot is.
    fn copy_cancelled(&self, _copy: Copy<'_>, _why: StopReason) {}

    /// A copy ended, `ran` after its start. `won`: whether its response is the query's.
    fn copy_ended(&self, _copy: Copy<'_>, _end: CopyEnd, _won: bool, _ran: Duration) {}

    /// A query got its first copy, `queued` after its arrival.
    fn query_started(&self, _shard: &str, _queued: Duration) {}

    /// A server gets no new copies from now on. `shards`: the shards that it may serve.
    fn ejected(&self, _shards: &[Arc<str>], _server: &str, _why: EjectionCause) {}

    /// A server gets copies again.
    fn restored(&self, _shards: &[Arc<str>], _server: &str) {}
}

/// Observes a cell, and replaces numbers with names.
pub(crate) struct Named<S: Replica<R>, R> {
    /// The names of its shards, by their groups.
    pub(crate) shards: Vec<Arc<str>>,
    pub(crate) replicas: Replicas<S, R>,
    pub(crate) observer: Arc<dyn Observer>,
}

impl<S: Replica<R>, R: Send + 'static> Named<S, R> {
    fn server(&self, server: ServerId) -> Arc<str> {
        self.replicas.places.name(server).unwrap_or_else(|| "(removed)".into())
    }

    fn copy(&self, info: CopyInfo, with: impl FnOnce(&dyn Observer, Copy<'_>)) {
        let CopyInfo { group, server, role, why } = info;
        let (shard, server) = (&self.shards[group.index()], self.server(server));
        self.safely(|| with(&*self.observer, Copy { shard, server: &server, role, why }));
    }

    /// A panic of an observer must not keep the cell from its work. The panic hook has reported it.
    fn safely(&self, observe: impl FnOnce()) {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(observe));
    }
}

impl<S: Replica<R>, R: Send + 'static> curtail_runtime::Observer for Named<S, R> {
    fn copy_started(&self, copy: CopyInfo, _: StartReason) {
        self.copy(copy, Observer::copy_started);
    }

    fn copy_cancelled(&self, copy: CopyInfo, why: StopReason) {
        self.copy(copy, |observer, copy| observer.copy_cancelled(copy, why));
    }

    fn copy_ended(&self, copy: CopyInfo, end: CopyEnd, won: bool, ran_ns: u64) {
        let ran = Duration::from_nanos(ran_ns);
        self.copy(copy, |observer, copy| observer.copy_ended(copy, end, won, ran));
    }

    fn query_started(&self, group: GroupId, queued_ns: u64) {
        let shard = &self.shards[group.index()];
        let queued = Duration::from_nanos(queued_ns);
        self.safely(|| self.observer.query_started(shard, queued));
    }

    fn ejected(&self, server: ServerId, why: EjectionCause) {
        let name = self.server(server);
        self.safely(|| self.observer.ejected(&self.shards, &name, why));
    }

    fn restored(&self, server: ServerId) {
        let name = self.server(server);
        self.safely(|| self.observer.restored(&self.shards, &name));
    }
}
