//! The load-balancing policy of a cluster: each copy gets the host that its cell chose.
//!
//! Envoy has one balancer per cluster on each of its threads. It asks for a host while a filter
//! starts a copy, on the same thread, so the choice is left in a variable of the thread. No header
//! and no backend is involved. Cost: one lookup in a map per copy.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::abi::{HostSet, Position};
use crate::cluster::{Cluster, Host};
use crate::module;

/// The host of the copy that is being started.
struct Pin {
    cluster: Arc<Cluster>,
    address: Arc<str>,
}

thread_local! {
    static PIN: Cell<Option<Pin>> = const { Cell::new(None) };
}

/// Sets the host of the copy that starts when the hook of its filter returns.
pub(crate) fn pin(cluster: &Arc<Cluster>, address: Arc<str>) {
    PIN.set(Some(Pin { cluster: Arc::clone(cluster), address }));
}

/// Starts a copy at this host. Another copy may be about to start when the hook returns.
pub(crate) fn pinned<V>(cluster: &Arc<Cluster>, address: Arc<str>, start: impl FnOnce() -> V) -> V {
    let before = PIN.replace(Some(Pin { cluster: Arc::clone(cluster), address }));
    let started = start();
    PIN.set(before);
    started
}

/// A copy that was about to start has not started, because a later filter holds its request.
pub(crate) fn unpin() {
    PIN.take();
}

/// The view that a thread has of a cluster.
pub(crate) struct Balancer {
    cluster: Arc<Cluster>,
    /// The hosts that may get copies.
    healthy: RefCell<BTreeMap<String, Position>>,
    /// The same, in Envoy's order, for requests without a filter.
    order: RefCell<Vec<Position>>,
    next: Cell<usize>,
}

impl Balancer {
    pub(crate) fn new(hosts: &HostSet) -> Self {
        let balancer = Self {
            cluster: Cluster::named(&hosts.cluster()),
            healthy: RefCell::default(),
            order: RefCell::default(),
            next: Cell::new(0),
        };
        balancer.update(hosts);
        balancer
    }

    /// The hosts or their health have changed.
    pub(crate) fn update(&self, hosts: &HostSet) {
        let mut healthy = hosts.healthy();
        // Hosts of a lower priority (a larger number) stand in if no other host is healthy.
        let first = healthy.first().map(|(position, _)| position.priority);
        healthy.retain(|(position, _)| Some(position.priority) == first);
        if module::get().is_main() {
            let mut known: BTreeMap<_, _> =
                hosts.all().into_iter().map(|(_, address)| (address, false)).collect();
            known.extend(healthy.iter().map(|(_, address)| (address.clone(), true)));
            let known = known.into_iter();
            let known = known.map(|(address, healthy)| Host { address: address.into(), healthy });
            self.cluster.set(known.collect());
        }
        self.order.replace(healthy.iter().map(|(position, _)| *position).collect());
        let by_address = healthy.into_iter().map(|(position, address)| (address, position));
        self.healthy.replace(by_address.collect());
    }

    /// Returns the host of the copy that is being started. Requests without a filter, and those that
    /// Envoy's router retries, get the hosts in turn.
    pub(crate) fn choose(&self) -> Option<Position> {
        match PIN.take().filter(|pin| Arc::ptr_eq(&pin.cluster, &self.cluster)) {
            Some(pin) => self.healthy.borrow().get(&*pin.address).copied(),
            None => {
                let order = self.order.borrow();
                let next = self.next.get();
                self.next.set(next.wrapping_add(1));
                order.get(next.checked_rem(order.len())?).copied()
            }
        }
    }
}
