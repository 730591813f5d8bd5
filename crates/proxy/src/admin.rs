//! The admin server, which serves `/metrics`, `/status`, `/health` and `/ready` on a separate
//! listener.
//!
//! `/health` is about the process, and `/ready` is about its replicas: `/ready` is 503 if a shard
//! has no server that is up. Both are 503 while the proxy drains.
//!
//! Slow clients cannot keep a health check out. Each step of a request has a short timeout. If all
//! connections are taken, a new one closes the one that has waited longest for its client. The
//! listener has file descriptors of its own ([`curtail_runtime::accept`]).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use curtail_flow::{ResourceSnapshot, Snapshot, WorkflowSnapshot};
use curtail_http::h1::server::{Connection, ServerError};
use curtail_http::h1::{Limits, Timeouts};
use curtail_kernel::ServerId;
use curtail_runtime::accept::{Accepted, Acceptor, is_exhausted};
use curtail_runtime::{Learned, Learning};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet, yield_now};
use tokio::time::Instant;

use crate::metrics::{CONTENT_TYPE, RescueMetrics, SecondCopies};
use crate::sidecar::Sidecar;
use crate::state::{Proxy, Service};

/// Maximum number of connections, which is enough for one scraper and a few users.
const CONNECTIONS: usize = 64;

/// Maximum duration of each step: the wait for a request, its head, its body, and the response.
/// Admin clients are close by, and what they send and receive is short. `[listen]` may set shorter
/// timeouts.
const STEP: Duration = Duration::from_secs(5);

/// The response to `GET /status`.
#[derive(Serialize)]
struct Status<'a> {
    draining: bool,
    /// Present if a service has a role in `[flow]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<FlowStatus>,
    services: Vec<ServiceStatus<'a>>,
}

#[derive(Serialize)]
struct FlowStatus {
    service: String,
    workflows: Vec<WorkflowStatus>,
    resources: Vec<ResourceStatus>,
}

/// Rates are in requests per second, or null if there is no limit.
#[derive(Serialize)]
struct WorkflowStatus {
    name: String,
    rate: f64,
    local_rate: f64,
    downstream_rate: f64,
    offered_rate: f64,
    waiting: u32,
    admitted: u64,
    late: u64,
    full: u64,
}

#[derive(Serialize)]
struct ResourceStatus {
    name: String,
    slots: u32,
    running: u32,
    waiting: u32,
}

#[derive(Serialize)]
struct ServiceStatus<'a> {
    name: &'a str,
    policy: String,
    /// The number of queries that have no response yet.
    live: usize,
    /// Present if the policy learns.
    #[serde(skip_serializing_if = "Option::is_none")]
    learned: Option<Learned>,
    /// The number of second copies for each outcome, as in the metrics. Present if the policy is
    /// `rescue`.
    #[serde(flatten)]
    second_copies: Option<SecondCopies<'a>>,
    shards: Vec<ShardStatus<'a>>,
}

#[derive(Serialize)]
struct ShardStatus<'a> {
    name: &'a str,
    /// The number of queries that wait for a server.
    queue: u32,
    servers: Vec<ServerStatus>,
}

#[derive(Serialize)]
struct ServerStatus {
    address: String,
    up: bool,
    /// Null if the configuration has none.
    slots: Option<u32>,
    /// The number of copies at the server.
    busy: u32,
}

pub(crate) async fn serve(
    proxy: Arc<Proxy>,
    listener: TcpListener,
    draining: watch::Receiver<bool>,
) {
    let mut acceptor = Acceptor::new(listener);
    let mut connections = Connections::default();
    loop {
        match acceptor.accept().await {
            Ok(accepted) => {
                if connections.count() >= CONNECTIONS {
                    connections.close_longest().await;
                }
                let (proxy, draining) = (Arc::clone(&proxy), draining.clone());
                let since = Since::now();
                let serving = connection(proxy, accepted, draining, since.clone());
                connections.open.push((since, connections.tasks.spawn(serving)));
                // The new connection may respond before others can close it.
                yield_now().await;
            }
            // All spare descriptors are in use by admin connections.
            Err(error) if is_exhausted(&error) => connections.close_longest().await,
            Err(_) => {}
        }
    }
}

/// The open connections. Dropping this value closes them.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    open: Vec<(Since, AbortHandle)>,
}

impl Connections {
    fn count(&mut self) -> usize {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|(_, task)| !task.is_finished());
        self.open.len()
    }

    /// Closes the connection that has waited longest for its client.
    async fn close_longest(&mut self) {
        self.count();
        let longest = (0..self.open.len()).min_by_key(|&at| self.open[at].0.get());
        if let Some(at) = longest {
            self.open.remove(at).1.abort();
            // Its descriptor is free when its task has ended.
            self.tasks.join_next().await;
        }
    }
}

/// The time since which a connection waits for its client.
#[derive(Clone)]
struct Since(Arc<Mutex<Instant>>);

impl Since {
    fn now() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn get(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn restart(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

async fn connection(
    proxy: Arc<Proxy>,
    mut accepted: Accepted,
    draining: watch::Receiver<bool>,
    since: Since,
) {
    let proxy = &*proxy;
    let listen = &proxy.config.listen;
    // No endpoint uses a request body. A short body is read nevertheless, so that the client
    // receives the error response.
    let limits = Limits { body_bytes: 4 << 10, ..listen.limits };
    let Timeouts { idle, head, body, write, linger } = listen.timeouts;
    let timeouts = Timeouts {
        idle: idle.min(STEP),
        head: head.min(STEP),
        body: body.min(STEP),
        write: write.min(STEP),
        linger: linger.min(STEP),
    };
    // The connection borrows the stream, so that the descriptor is kept when `accepted` is dropped.
    let mut client = Connection::new(&mut *accepted, limits, timeouts);
    loop {
        let request = match client.next_request().await {
            Ok(Some(request)) => request,
            Ok(None) => break,
            Err(ServerError::Reject(reject)) => {
                let _ = client.reject(&reject).await;
                break;
            }
            Err(_) => return,
        };
        let draining = *draining.borrow();
        let path = request.head.path_and_query().split('?').next().unwrap_or("/");
        let (status, kind, body) = response(proxy, request.head.method(), path, draining);
        // RFC 9110 §15.5.6.
        let allow = (status == 405).then_some(("allow", "GET, HEAD"));
        let headers = [("content-type", kind), ("cache-control", "no-store")];
        let headers = headers.into_iter().chain(allow);
        if client.respond(status, headers, body.as_bytes()).await.is_err() {
            return;
        }
        since.restart();
        if client.is_closing() {
            break;
        }
    }
    client.close().await;
}

fn response(
    proxy: &Proxy,
    method: &str,
    path: &str,
    draining: bool,
) -> (u16, &'static str, String) {
    const TEXT: &str = "text/plain; charset=utf-8";
    if method != "GET" && method != "HEAD" {
        return (405, TEXT, "only GET is served here\n".into());
    }
    match path {
        "/health" if draining => (503, TEXT, "draining\n".into()),
        "/health" => (200, TEXT, "ok\n".into()),
        "/ready" if draining => (503, TEXT, "draining\n".into()),
        "/ready" => match not_ready(proxy) {
            text if text.is_empty() => (200, TEXT, "ready\n".into()),
            text => (503, TEXT, text),
        },
        "/metrics" => {
            proxy.sample();
            let mut text = proxy.metrics.render();
            if let Some(sidecar) = &proxy.sidecar {
                // The text of the metrics may contain only one `# EOF`.
                text.truncate(text.len() - "# EOF\n".len());
                text += &sidecar.flow.render_prometheus();
            }
            (200, CONTENT_TYPE, text)
        }
        "/status" => {
            let flow = proxy.sidecar.as_ref().map(flow);
            let services = proxy.services.iter().map(service).collect();
            let status = Status { draining, flow, services };
            let body = serde_json::to_string_pretty(&status).unwrap_or_default();
            (200, "application/json", body + "\n")
        }
        _ => (404, TEXT, "try /metrics, /status, /health or /ready\n".into()),
    }
}

/// Returns a line for each shard without a server that is up.
fn not_ready(proxy: &Proxy) -> String {
    let mut text = String::new();
    for service in &proxy.services {
        for (at, shard) in service.config.shards.iter().enumerate() {
            let (cell, _) = service.shard(at);
            let servers = service.servers(at);
            if !cell.look(|core| servers.iter().any(|&server| core.server(server).up)) {
                let (service, shard) = (&service.config.name, &shard.name);
                text += &format!("service {service:?}: no server of shard {shard:?} is up\n");
            }
        }
    }
    text
}

fn flow(sidecar: &Sidecar) -> FlowStatus {
    let Snapshot { workflows, resources } = sidecar.flow.snapshot();
    let workflow = |of: WorkflowSnapshot| WorkflowStatus {
        name: of.name,
        rate: of.view.rate,
        local_rate: of.view.local,
        downstream_rate: of.view.downstream,
        offered_rate: of.view.offered,
        waiting: of.view.waiting,
        admitted: of.admitted,
        late: of.late,
        full: of.full,
    };
    let resource = |of: ResourceSnapshot| ResourceStatus {
        name: of.name,
        slots: of.slots,
        running: of.running,
        waiting: of.waiting,
    };
    FlowStatus {
        service: sidecar.flow.service().to_owned(),
        workflows: workflows.into_iter().map(workflow).collect(),
        resources: resources.into_iter().map(resource).collect(),
    }
}

fn service(service: &Service) -> ServiceStatus<'_> {
    let shard = |at: usize| {
        let (cell, group) = service.shard(at);
        let shard = &service.config.shards[at];
        let (queue, views) = cell.look(|core| {
            let servers = service.servers(at).iter();
            let views: Vec<_> = servers.map(|&server| (server, core.server(server))).collect();
            (core.waiting(group), views)
        });
        let address = |server: ServerId| cell.transport().upstream(server).address().to_string();
        let servers = views.into_iter().map(|(server, view)| ServerStatus {
            address: address(server),
            up: view.up,
            slots: service.config.slots,
            busy: view.outstanding,
        });
        ShardStatus { name: &shard.name, queue, servers: servers.collect() }
    };
    ServiceStatus {
        name: &service.config.name,
        policy: service.config.policy.to_string(),
        live: service.cells.iter().map(|(cell, _)| cell.live_queries()).sum(),
        learned: service.learning().map(Learning::learned),
        second_copies: service.metrics.rescue.as_ref().map(RescueMetrics::second_copies),
        shards: (0..service.config.shards.len()).map(shard).collect(),
    }
}
