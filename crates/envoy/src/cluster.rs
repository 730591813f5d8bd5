//! The hosts of Envoy's clusters.
//!
//! Envoy's main thread learns first of every change, and is the only one whose view reaches the
//! cells. The workers follow it within microseconds; a copy for a host that its worker does not know
//! yet fails without being sent, and the kernel chooses another one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A host of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) address: Arc<str>,
    /// Whether Envoy's health checks and outlier detection let it have requests.
    pub(crate) healthy: bool,
}

/// Gets the hosts of a cluster.
pub(crate) trait Follow: Send + Sync {
    /// These are the hosts from now on.
    fn hosts(self: Arc<Self>, hosts: &[Host]);
}

/// A cluster, by its name in Envoy.
pub(crate) struct Cluster {
    pub(crate) name: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hosts: Vec<Host>,
    followers: Vec<Weak<dyn Follow>>,
}

static CLUSTERS: Mutex<BTreeMap<String, Weak<Cluster>>> = Mutex::new(BTreeMap::new());

impl Cluster {
    /// Returns the cluster of this name. Whoever asks first creates it: a service, or Envoy.
    pub(crate) fn named(name: &str) -> Arc<Self> {
        let mut clusters = CLUSTERS.lock().unwrap_or_else(PoisonError::into_inner);
        clusters.retain(|_, cluster| cluster.strong_count() > 0);
        clusters.get(name).and_then(Weak::upgrade).unwrap_or_else(|| {
            let created = Arc::new(Self { name: name.to_owned(), state: Mutex::default() });
            clusters.insert(name.to_owned(), Arc::downgrade(&created));
            created
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the hosts that are known now.
    pub(crate) fn hosts(&self) -> Vec<Host> {
        self.lock().hosts.clone()
    }

    /// Adds a follower, and passes the current hosts to it.
    pub(crate) fn add(&self, follower: &Arc<impl Follow + 'static>) {
        let mut state = self.lock();
        let follower: Arc<dyn Follow> = Arc::clone(follower) as _;
        Arc::clone(&follower).hosts(&state.hosts);
        state.followers.push(Arc::downgrade(&follower));
    }

    /// Sets the hosts.
    pub(crate) fn set(&self, hosts: Vec<Host>) {
        let mut state = self.lock();
        if state.hosts == hosts {
            return;
        }
        state.followers.retain(|follower| {
            let follower = follower.upgrade();
            follower.map(|follower| follower.hosts(&hosts)).is_some()
        });
        state.hosts = hosts;
    }
}
