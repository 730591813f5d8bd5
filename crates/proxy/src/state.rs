//! The state of a running proxy.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use curtail_flow::Target;
use curtail_kernel::{Core, GroupId, ServerId};
use curtail_net::{Address, ClientTls, ServerTls};
use curtail_runtime::http::{Budget, Http, Replica, Settings};
use curtail_runtime::stage::Stage;
use curtail_runtime::{Cell, Learning, ServiceBuilder, Timers};
use tokio::sync::Semaphore;

use crate::certificates::{Certificates, ExpiryCollector};
use crate::config::{self, Config, FlowRole};
use crate::log_limit::LogLimit;
use crate::metrics::{Metrics, ServiceMetrics};
use crate::observe::Watcher;
use crate::sidecar::Sidecar;

/// Maximum number of concurrent requests at a replica with `throttle = "auto"`.
const MOST_SLOTS: u32 = 256;

/// The reason why the proxy did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The proxy cannot listen on an address.
    #[error("{key} = \"{address}\"{place}: cannot listen on this address: {error}; {}", fix(error))]
    Listen {
        /// The configuration key that sets the address.
        key: &'static str,
        /// Where the address comes from, in parentheses: `FILE:LINE`, a service, or the default.
        place: String,
        /// The address.
        address: SocketAddr,
        /// The error from the operating system.
        error: std::io::Error,
    },
    /// The files of TLS cannot be loaded.
    #[error(transparent)]
    Tls(#[from] curtail_net::TlsError),
    /// The kernel rejected a service.
    #[error(transparent)]
    Kernel(#[from] curtail_kernel::ConfigError),
    /// The Unix socket cannot be bound.
    #[error("listen.unix: {0}")]
    Unix(String),
    /// The flow control of the sidecar cannot be built.
    #[error(transparent)]
    Flow(#[from] curtail_flow::BuildError),
}

fn fix(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "choose a port above 1023, or give this program the capability CAP_NET_BIND_SERVICE"
        }
        ErrorKind::AddrNotAvailable => "choose an address of this machine",
        _ => "choose another address, or stop the program that uses it",
    }
}

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) config: Config,
    pub(crate) sidecar: Option<Sidecar>,
    pub(crate) services: Vec<Service>,
    pub(crate) metrics: Metrics,
    /// What the buffers for bodies may hold.
    pub(crate) budget: Budget,
    /// TLS for clients, if there is an address for it.
    pub(crate) tls: Option<ServerTls>,
    pub(crate) certificates: Vec<Certificates>,
    /// Limits the log lines about metadata that is ignored.
    pub(crate) ignored_lines: LogLimit,
}

/// A running service.
pub(crate) struct Service {
    pub(crate) config: config::Service,
    pub(crate) cells: Vec<(Cell<Http>, config::CellConfig)>,
    /// For each shard: the index of its cell, and its group in that cell.
    shards: Vec<(usize, GroupId)>,
    /// For each cell: its servers, as targets of the application's calls. The list is empty unless
    /// the service has the role `egress`.
    targets: Vec<Arc<[Target]>>,
    pub(crate) metrics: Arc<ServiceMetrics>,
    /// TLS towards the replicas, if they use it.
    tls: Option<ClientTls>,
    /// The stage in front of the replica. Duplicates wait in it behind all other requests, and
    /// leave it when their client disconnects.
    pub(crate) stage: Option<Stage>,
    /// Has a permit for each tunnel that may be opened.
    pub(crate) tunnels: Arc<Semaphore>,
    /// Runs what the cells learn from each other.
    running: curtail_runtime::Service<Http>,
}

impl Service {
    /// Returns what the service has learned. `None` if its policy does not learn.
    pub(crate) fn learning(&self) -> Option<&Learning> {
        self.running.learning()
    }

    pub(crate) fn shard(&self, shard: usize) -> (&Cell<Http>, GroupId) {
        let (cell, group) = self.shards[shard];
        (&self.cells[cell].0, group)
    }

    /// Returns the servers of a shard's cell as targets, for a service that the application calls.
    pub(crate) fn targets(&self, shard: usize) -> &Arc<[Target]> {
        &self.targets[self.shards[shard].0]
    }

    /// Returns the servers of a shard, as ids in its cell.
    pub(crate) fn servers(&self, shard: usize) -> &[ServerId] {
        let (cell, group) = self.shards[shard];
        &self.cells[cell].1.topology.groups[group.index()]
    }
}

impl Proxy {
    /// Builds the cells. Must be called inside a tokio runtime.
    pub(crate) fn new(config: Config, seed: u64) -> Result<Self, StartError> {
        let mut metrics = Metrics::new(&config);
        let sidecar = Sidecar::new(&config)?;
        let timers = Timers::precise();
        let budget = Budget::new(config.listen.max_buffered);
        let mut services = Vec::with_capacity(config.services.len());
        let mut certificates = Vec::new();
        for (at, service) in config.services.iter().enumerate() {
            let metrics = &metrics.services[at];
            let mut service = start(at, service, metrics, &timers, &budget, seed)?;
            if let (Some(sidecar), Some(FlowRole::Egress)) = (&sidecar, service.config.flow) {
                let cells = service.cells.iter();
                let targets = cells.map(|(_, cell)| sidecar.targets(&service.config.name, cell));
                service.targets = targets.collect();
            }
            let tls = service.tls.clone();
            certificates.extend(tls.map(|tls| Certificates::of_service(&service.config.name, tls)));
            services.push(service);
        }
        let tls =
            config.listen.https.as_ref().map(|(_, spec)| ServerTls::load(spec)).transpose()?;
        certificates.extend(tls.clone().map(Certificates::of_listener));
        metrics.add(ExpiryCollector(certificates.clone()));
        let ignored_lines = LogLimit::new();
        Ok(Self { sidecar, services, metrics, budget, tls, certificates, config, ignored_lines })
    }

    /// Updates the gauges. Called before the gauges are read, not on every event.
    pub(crate) fn sample(&self) {
        self.metrics.buffered.set(self.budget.used() as i64);
        for service in &self.services {
            if let Some(learning) = service.learning() {
                learning.look(|learner| service.metrics.learned(learner));
            }
            if let Some(rescue) = &service.metrics.rescue {
                let suspects = service.cells.iter().map(|(cell, _)| i64::from(cell.suspects()));
                rescue.suspects.set(suspects.sum());
            }
            let tunnels = service.config.tunnels.max - service.tunnels.available_permits();
            service.metrics.tunnels.set(tunnels as i64);
            // The cells maintain the count. Several readers may store the same value.
            let refused = service.cells.iter().map(|(cell, _)| cell.look(Core::hedges_refused));
            let hedges_refused = service.metrics.hedges_refused.inner();
            hedges_refused.store(refused.sum(), Ordering::Relaxed);
            if let (Some(stage), Some([slots, waiting, rest])) =
                (&service.stage, &service.metrics.stage)
            {
                slots.set(stage.slots().into());
                waiting.set(stage.waiting().into());
                rest.set(stage.works_on().into());
            }
            for (cell, layout) in &service.cells {
                cell.look(|core| {
                    for (group, &shard) in layout.shards.iter().enumerate() {
                        let waiting = core.waiting(GroupId(group as u32));
                        service.metrics.shards[shard].queue_length.set(i64::from(waiting));
                    }
                    for (id, &server) in layout.servers.iter().enumerate() {
                        let view = core.server(ServerId(id as u32));
                        let metrics = &service.metrics.servers[server];
                        metrics.up.set(i64::from(view.up));
                        metrics.busy.set(i64::from(view.outstanding));
                        metrics.slots.set(i64::from(view.limit));
                        if let (Some(gauge), Some(rate)) =
                            (&metrics.rate, core.rate(ServerId(id as u32)))
                        {
                            gauge.set(rate);
                        }
                    }
                });
                for (id, &server) in layout.servers.iter().enumerate() {
                    if let Some(gauge) = &service.metrics.servers[server].score
                        && let Some(score) = cell.score(ServerId(id as u32))
                    {
                        gauge.set(score);
                    }
                }
            }
        }
    }
}

fn start(
    at: usize,
    service: &config::Service,
    metrics: &Arc<ServiceMetrics>,
    timers: &Timers,
    budget: &Budget,
    seed: u64,
) -> Result<Service, StartError> {
    let tls = service.tls.as_ref().map(ClientTls::load).transpose()?;
    let settings = Settings {
        priorities: service.policy.has_priorities(),
        load_reports: service.policy.needs().feedback,
        ..service.settings
    };
    let layout = service.cells();
    let mut cells = Vec::with_capacity(layout.cells.len());
    let seed = seed ^ ((at as u64) << 32);
    let mut running = ServiceBuilder::new(service.policy, service.limits, timers.clone(), seed);
    for cell in layout.cells {
        let replica = |address: &Address| Replica {
            address: address.clone(),
            tls: tls.clone(),
            protocol: service.protocol,
        };
        let transport = Http::new(cell.addresses.iter().map(replica), settings);
        let transport = transport.with_probes(service.probe.clone());
        let transport = transport.with_outcomes(service.outcomes.clone());
        let transport = transport.with_budget(budget.clone());
        let watcher = Watcher::new(metrics, &service.name, &cell);
        let added = running.add(&cell.topology, transport, watcher)?;
        cells.push((added.clone(), cell));
    }
    Ok(Service {
        config: service.clone(),
        cells,
        shards: layout.shards,
        targets: Vec::new(),
        metrics: Arc::clone(metrics),
        tls,
        stage: service.throttle.map(|throttle| {
            let queue = service.limits.queue;
            match throttle {
                config::Throttle::Auto => Stage::throttled(MOST_SLOTS, queue),
                config::Throttle::Slots(slots) => Stage::before(slots, queue),
            }
        }),
        tunnels: Arc::new(Semaphore::new(service.tunnels.max)),
        running: running.start(),
    })
}
