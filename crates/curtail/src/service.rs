//! A service: shards with the same policy.

use std::fmt;
use std::sync::Arc;

use curtail_kernel::hedge::AnyLearner;
use curtail_kernel::{GroupId, Limits, Policy};
use curtail_runtime::Learned;
use tokio::task::JoinSet;

use crate::transport::{Handlers, Replica, Replicas};

/// A replicated service: shards, each with replicas that can serve its queries. Clones share it, and
/// it ends with the last clone and the last [`Shard`](crate::Shard).
pub struct Curtail<S: Replica<R>, R: Send + 'static>(pub(crate) Arc<Shared<S, R>>);

/// What the clones of a service share.
pub(crate) struct Shared<S: Replica<R>, R: Send + 'static> {
    pub(crate) running: curtail_runtime::Service<Replicas<S, R>>,
    pub(crate) shards: Vec<Place>,
    pub(crate) handlers: Arc<Handlers<S, R>>,
    pub(crate) policy: Policy,
    pub(crate) limits: Limits,
    /// Health checks and discovery, which end with the service.
    pub(crate) _background: JoinSet<()>,
}

/// The place of a shard.
pub(crate) struct Place {
    pub(crate) name: Arc<str>,
    /// The number of its cell.
    pub(crate) cell: usize,
    /// Its group in the cell.
    pub(crate) group: GroupId,
    /// Whether it shares servers, which are fixed.
    pub(crate) is_ring: bool,
}

impl<S: Replica<R>, R: Send + 'static> Clone for Curtail<S, R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Replica<R>, R: Send + 'static> fmt::Debug for Curtail<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { shards, policy, .. } = &*self.0;
        let names: Vec<_> = shards.iter().map(|shard| &shard.name).collect();
        f.debug_struct("Curtail")
            .field("policy", &format_args!("{policy}"))
            .field("shards", &names)
            .finish_non_exhaustive()
    }
}

impl<S: Replica<R>, R: Send + 'static> Curtail<S, R> {
    /// Returns the policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Returns the limits, which contain the defaults that the builder has derived.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Passes the learner of the service to `with` and returns the result, for a policy of one's own.
    /// `None` if the policy does not learn.
    pub fn learner<V>(&self, with: impl FnOnce(&AnyLearner) -> V) -> Option<V> {
        self.0.running.learning().map(|learning| learning.look(with))
    }

    /// Returns what the service has learned. `None` if its policy does not learn.
    #[must_use]
    pub fn learned(&self) -> Option<Learned> {
        self.0.running.learning().map(curtail_runtime::Learning::learned)
    }
}
