//! A service: what a filter's configuration states, and the cells of its shards.
//!
//! Filters with the same configuration share their service, so all workers, all listeners and all
//! versions of a listener have one queue per shard and learn together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use curtail_kernel::{Policy, ServerId, Topology};
use curtail_proxy::embedded::Embedded;
use curtail_runtime::{Cell, Occupant, Places, ServiceBuilder};

use crate::abi::OpenDesk;
use crate::cluster::{Cluster, Follow, Host};
use crate::errands;
use crate::link::{Ask, Filters};
use crate::metrics::{Metrics, Watcher};
use crate::module;

/// How often hosts that wait for a place are considered again.
const INTERVAL: Duration = Duration::from_millis(250);

/// A running service.
pub(crate) struct Service {
    pub(crate) config: Embedded,
    /// The text of the configuration, which identifies the service.
    text: String,
    pub(crate) shards: Vec<Arc<Shard>>,
    /// Runs what the cells learn from each other.
    _running: curtail_runtime::Service<Filters>,
}

static SERVICES: Mutex<Vec<Weak<Service>>> = Mutex::new(Vec::new());

impl Service {
    /// Returns the service with this configuration. `None` if it has errors, which the log reports.
    pub(crate) fn of(text: &str) -> Option<Arc<Self>> {
        let mut services = SERVICES.lock().unwrap_or_else(PoisonError::into_inner);
        services.retain(|service| service.strong_count() > 0);
        let same = services.iter().filter_map(Weak::upgrade).find(|service| service.text == text);
        if same.is_some() {
            return same;
        }
        match Self::start(text) {
            Ok(service) => {
                let service = Arc::new(service);
                services.push(Arc::downgrade(&service));
                Some(service)
            }
            Err(errors) => {
                errors.lines().for_each(|error| tracing::error!("{error}"));
                None
            }
        }
    }

    fn start(text: &str) -> Result<Self, String> {
        let config = Embedded::parse(text)?;
        config.remarks().for_each(|remark| tracing::warn!("{remark}"));
        let module = module::get();
        let _runtime = module.runtime.enter();
        let (policy, limits) = (config.policy(), config.limits());
        let seed = module.seed;
        let mut running = ServiceBuilder::new(policy, limits, module.timers.clone(), seed);
        let topology = Topology::replicated(config.places(), config.slots());
        let mut shards = Vec::new();
        for (name, cluster) in config.shards() {
            let metrics = Metrics::new(config.name(), name, &policy.to_string());
            let watcher = Watcher(Arc::clone(&metrics));
            let cell = running.add(&topology, Filters::default(), watcher);
            let cell = cell.map_err(|error| error.to_string())?.clone();
            shards.push(Shard::new(name, config.places(), Cluster::named(cluster), cell, metrics));
        }
        for shard in &shards {
            if let Some(path) = config.probe() {
                // It is set once.
                let _ = shard.cell.transport().ask.set(shard.asks(path.into()));
            }
            shard.cluster.add(shard);
        }
        Ok(Self { text: text.to_owned(), shards, _running: running.start(), config })
    }

    pub(crate) fn policy(&self) -> Policy {
        self.config.policy()
    }
}

/// Passes on the statistics of all services to Envoy.
pub(crate) fn flush(desk: &OpenDesk<'_>) {
    let services = SERVICES.lock().unwrap_or_else(PoisonError::into_inner);
    for service in services.iter().filter_map(Weak::upgrade) {
        for Shard { cell, metrics, .. } in service.shards.iter().map(|shard| &**shard) {
            let suspects = cell.suspects();
            cell.look(|core| metrics.flush(desk, core, suspects));
        }
    }
}

/// A shard of a service.
pub(crate) struct Shard {
    name: String,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) cell: Cell<Filters>,
    pub(crate) metrics: Arc<Metrics>,
    places: Places<()>,
    known: Mutex<Known>,
}

/// What is known of a cluster.
#[derive(Default)]
struct Known {
    hosts: Vec<Host>,
    /// Some of them wait for a place.
    waits: bool,
}

impl Shard {
    fn new(
        name: &str,
        places: u32,
        cluster: Arc<Cluster>,
        cell: Cell<Filters>,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        // Hosts that are there from the start need not start slowly.
        let hosts: Vec<_> = cluster.hosts().into_iter().take(places as usize).collect();
        let occupant = |host: &Host| Occupant { name: Arc::clone(&host.address), server: () };
        let taken = hosts.iter().map(|host| Some(occupant(host)));
        let free = places as usize - hosts.len();
        let places = Places::new(taken.chain(std::iter::repeat_n(None, free)));
        for (at, place) in places.ids().enumerate() {
            match hosts.get(at) {
                None => cell.server_left(place),
                Some(host) if !host.healthy => cell.server_unhealthy(place, false),
                Some(_) => {}
            }
        }
        let known = Mutex::new(Known { hosts, waits: false });
        Arc::new(Self { name: name.to_owned(), cluster, cell, metrics, places, known })
    }

    /// Returns the address of a server.
    pub(crate) fn address(&self, server: ServerId) -> Option<Arc<str>> {
        self.places.name(server)
    }

    /// Returns what asks the servers for their load.
    fn asks(self: &Arc<Self>, path: Arc<str>) -> Ask {
        let shard = Arc::downgrade(self);
        Box::new(move |server| {
            let shard = shard.upgrade()?;
            errands::ask(&shard.cluster, shard.address(server)?, Arc::clone(&path))
        })
    }

    /// Makes these hosts the members. Returns whether some wait for a place.
    fn settle(&self, before: &[Host], hosts: &[Host]) -> bool {
        let is_in = |hosts: &[Host], of: &Host| hosts.iter().any(|host| host.address == of.address);
        for gone in before.iter().filter(|host| !is_in(hosts, host)) {
            self.places.remove(&self.cell, &gone.address);
        }
        let mut waits = false;
        for host in hosts {
            let found = self.places.find(&self.cell, &host.address);
            let is_new = found.is_none();
            let name = Arc::clone(&host.address);
            let add = || self.places.add(&self.cell, Occupant { name, server: () }).ok();
            let Some(place) = found.or_else(add) else {
                waits = true;
                continue;
            };
            let was_healthy = is_new || !before.contains(&Host { healthy: false, ..host.clone() });
            match (was_healthy, host.healthy) {
                (true, false) => self.cell.server_unhealthy(place, false),
                (false, true) => self.cell.server_up(place),
                _ => {}
            }
        }
        waits
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follow for Shard {
    fn hosts(self: Arc<Self>, hosts: &[Host]) {
        let mut known = self.lock();
        let waits = self.settle(&known.hosts, hosts);
        let waited = std::mem::replace(&mut *known, Known { hosts: hosts.to_vec(), waits }).waits;
        drop(known);
        if waits && !waited {
            module::get().runtime.spawn(retry(Arc::downgrade(&self)));
        }
    }
}

/// Finds places for the hosts that wait for one.
async fn retry(shard: Weak<Shard>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(shard) = shard.upgrade() else { return };
        let mut known = shard.lock();
        known.waits = known.waits && shard.settle(&known.hosts, &known.hosts);
        if !known.waits {
            return;
        }
        let shard = &shard.name;
        tracing::warn!(shard, "a host waits for a place and gets no requests; raise places");
    }
}
