//! One process of a service: prints its address, reads the addresses of all processes, serves until
//! its standard input ends, and prints a report.
//!
//! Source: document 002 §5.3, *Implementation*, where gRPC services have emulated resources.
//!
//! Cost: one thread per process, and a snapshot per sample.

use std::convert::Infallible;
use std::io::{BufRead as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result};
use curtail_flow::{ClientLayer, Config, Flow, ServerLayer, WorkflowSpec};
use curtail_runtime::Timers;
use curtail_sim::graph::{Control, Graph, Service};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, service_fn};

use super::clock::Clock;
use super::guarded::Guarded;
use super::message::Raw;
use super::rpc::{self, Server};
use super::work::{Node, Resource};

/// The header with the workflow of a client's request.
pub(super) const WORKFLOW: &str = "workflow";

/// The report of a process.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Report {
    /// The maximum admission rate per second, by sample and workflow. −1 for no limit.
    pub(super) rates: Vec<Vec<f64>>,
    /// The number of rejected requests.
    pub(super) turned_away: u64,
    /// The number of expired sub-tasks.
    pub(super) expired: u64,
    /// The time for which the slots of each resource were held, and the part of it that the process
    /// spent on its own work.
    pub(super) busy_ns: Vec<u64>,
    pub(super) work_ns: Vec<u64>,
    /// Processor time.
    pub(super) cpu_ns: u64,
}

/// Returns the processor time of this process, in ns.
pub(super) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the service of an instance.
fn service_of(graph: &Graph, mut instance: usize) -> Option<&Service> {
    graph.services.iter().find(|service| {
        let count = service.instances as usize;
        let is_here = instance < count;
        instance = instance.saturating_sub(count);
        is_here
    })
}

/// Runs the instance with index `at`, counted over all services.
pub(super) fn run(graph: &Graph, control: Control, time_scale: f64, at: usize) -> Result<()> {
    let service = service_of(graph, at).context("there is no such instance")?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    writeln!(std::io::stdout(), "listening on {}", listener.local_addr()?)?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let parse = |text: &str| text.parse::<SocketAddr>().context("addresses");
    let addresses = line.split_whitespace().map(parse).collect::<Result<Vec<_>>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        let clock = Clock::new(Instant::now(), time_scale);
        let name = (at as u64).to_le_bytes();
        let guard = control.guard(addresses.len(), curtail_dist::seed::stream(1, &[&name]));
        let flow = (!control.is_bare() && guard.is_none())
            .then(|| flow(graph, service, control, time_scale))
            .transpose()?;
        let mut peers = Vec::new();
        for (instance, address) in addresses.into_iter().enumerate() {
            let client = rpc::connect(address).await?;
            let of = service_of(graph, instance).map_or("", |of| &of.name);
            peers.push(match &flow {
                Some(flow) => {
                    let layer = ClientLayer::new(flow.clone(), of, &address.to_string());
                    BoxCloneSyncService::new(layer.layer(client))
                }
                None => client,
            });
        }
        let named = service.names.iter().zip(&service.resources);
        let resources = named.map(|(name, &spec)| Resource::new(name, spec)).collect();
        let timers = Timers::precise();
        let guarded = guard.map(|guard| Arc::new(Guarded::new(guard, clock)));
        let node = Arc::new(Node { resources, peers, timers, clock, guarded });
        let is_entry = service.name == graph.services[0].name;
        let server = server(Arc::clone(&node), flow.clone(), is_entry);
        tokio::spawn(rpc::serve(TcpListener::from_std(listener)?, server));
        anyhow::Ok(watch(graph, clock, flow.as_ref(), &node).await)
    })?;
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)?;
    // Exits immediately, because no client waits for the remaining requests.
    std::process::exit(0)
}

/// Builds the flow control of a process. `time_scale` converts times of the graph to times on the
/// machine.
fn flow(graph: &Graph, service: &Service, control: Control, time_scale: f64) -> Result<Flow> {
    let config = control.config(graph.flow);
    let scaled = |ns: u64| (ns as f64 * time_scale) as u64;
    let config = Config {
        interval_ns: scaled(config.interval_ns),
        drain_ns: scaled(config.drain_ns),
        stale_ns: scaled(config.stale_ns),
        least_rate: config.least_rate / time_scale,
        ..config
    };
    let mut builder = Flow::builder(&service.name).config(config);
    for workflow in &graph.workflows {
        let mut shares = workflow.settings;
        (shares.guarantee, shares.limit) =
            (shares.guarantee / time_scale, shares.limit / time_scale);
        builder = builder.workflow(&workflow.name, WorkflowSpec { shares, deadline: None });
    }
    for (name, &spec) in service.names.iter().zip(&service.resources) {
        builder = builder.resource(name, spec);
    }
    Ok(builder.build()?)
}

/// Returns the server. With flow control, it is behind the server layer.
fn server(node: Arc<Node>, flow: Option<Flow>, is_entry: bool) -> Server {
    let handler = service_fn(move |request: http::Request<tonic::body::Body>| {
        let node = Arc::clone(&node);
        async move {
            let serve = service_fn(|request| Arc::clone(&node).serve(request));
            Ok::<_, Infallible>(tonic::server::Grpc::new(Raw).unary(serve, request).await)
        }
    });
    let named = |parts: &http::request::Parts| {
        parts.headers.get(WORKFLOW).and_then(|name| Some(name.to_str().ok()?.to_owned()))
    };
    match flow {
        Some(flow) if is_entry => {
            BoxCloneSyncService::new(ServerLayer::edge(flow, named).layer(handler))
        }
        Some(flow) => BoxCloneSyncService::new(ServerLayer::new(flow).layer(handler)),
        None => BoxCloneSyncService::new(handler),
    }
}

/// Samples rates until the input ends, and returns the report.
async fn watch(graph: &Graph, clock: Clock, flow: Option<&Flow>, node: &Node) -> Report {
    let ends =
        tokio::task::spawn_blocking(|| std::io::stdin().lock().read_line(&mut String::new()));
    let before_ns = cpu_ns();
    let mut report = Report::default();
    let sample = async {
        for at in 1..=graph.samples() {
            tokio::time::sleep_until(clock.at(at * graph.sample_ns)).await;
            let per_second = clock.length(1_000_000_000).as_secs_f64();
            let rate = |name: &str| match flow
                .and_then(|flow| flow.snapshot().workflow(name).map(|of| of.view.rate))
            {
                Some(rate) if rate.is_finite() => rate * per_second,
                _ => -1.0,
            };
            report.rates.push(graph.workflows.iter().map(|of| rate(&of.name)).collect());
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = ends => {}
        () = sample => {}
    }
    if let Some(guarded) = &node.guarded {
        report.turned_away = guarded.turned_away.load(Ordering::Relaxed);
    }
    if let Some(snapshot) = flow.map(Flow::snapshot) {
        report.turned_away = snapshot.workflows.iter().map(|of| of.late + of.full).sum();
        report.expired = snapshot.resources.iter().map(|of| of.late).sum();
    }
    let busy = |of: &Resource| of.busy_ns.load(Ordering::Relaxed);
    let work = |of: &Resource| of.work_ns.load(Ordering::Relaxed);
    report.busy_ns = node.resources.iter().map(busy).collect();
    report.work_ns = node.resources.iter().map(work).collect();
    report.cpu_ns = cpu_ns() - before_ns;
    report
}
