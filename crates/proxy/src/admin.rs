//! The admin server, which serves `/metrics`, `/status` and `/health` on a separate listener.

use std::sync::Arc;
use std::time::Duration;

use curtail_flow::{ResourceSnapshot, Snapshot, WorkflowSnapshot};
use curtail_http::h1::server::{Connection, ServerError};
use curtail_http::h1::{Limits, Timeouts};
use curtail_kernel::ServerId;
use curtail_runtime::Learned;
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::metrics::{CONTENT_TYPE, RescueMetrics, SecondCopies};
use crate::sidecar::Sidecar;
use crate::state::{Proxy, Service};

/// Maximum number of connections, which is enough for one scraper and a few users.
const CONNECTIONS: usize = 64;

/// How long a connection may be idle. An idle client holds a permit that a monitor may need for its
/// next health check.
const IDLE: Duration = Duration::from_secs(5);

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
    slots: u32,
    /// The number of copies at the server.
    busy: u32,
}

pub(crate) async fn serve(
    proxy: Arc<Proxy>,
    listener: TcpListener,
    draining: watch::Receiver<bool>,
) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    // Dropping the set closes the connections.
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (proxy, draining) = (Arc::clone(&proxy), draining.clone());
        connections.spawn(async move {
            connection(&proxy, stream, &draining).await;
            drop(permit);
        });
    }
}

async fn connection(proxy: &Proxy, stream: TcpStream, draining: &watch::Receiver<bool>) {
    let listen = &proxy.config.listen;
    // No endpoint uses a request body. A short body is read nevertheless, so that the client
    // receives the error response.
    let limits = Limits { body_bytes: 4 << 10, ..listen.limits };
    let (idle, head) = (listen.timeouts.idle.min(IDLE), listen.timeouts.head.min(IDLE));
    let timeouts = Timeouts { idle, head, ..listen.timeouts };
    let mut client = Connection::new(stream, limits, timeouts);
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
        _ => (404, TEXT, "try /metrics, /status or /health\n".into()),
    }
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
        let address = |server: ServerId| cell.transport().pool(server).address().to_string();
        let servers = views.into_iter().map(|(server, view)| ServerStatus {
            address: address(server),
            up: view.up,
            slots: view.slots,
            busy: view.outstanding,
        });
        ShardStatus { name: &shard.name, queue, servers: servers.collect() }
    };
    ServiceStatus {
        name: &service.config.name,
        policy: service.config.policy.to_string(),
        live: service.cells.iter().map(|(cell, _)| cell.live_queries()).sum(),
        learned: service.learning.as_ref().map(|learning| learning.learned()),
        second_copies: service.metrics.rescue.as_ref().map(RescueMetrics::second_copies),
        shards: (0..service.config.shards.len()).map(shard).collect(),
    }
}
