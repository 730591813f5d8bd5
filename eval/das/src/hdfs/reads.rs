//! Reads through a Proxy D-Stage in front of each DataNode. Policies take turns.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use curtail_dist::seed::{rng, unit};
use curtail_kernel::{GroupId, Policy, Server, ServerId, Topology};
use curtail_runtime::http::{Http, Request, Response, Settings};
use curtail_runtime::{CopyHandle, Failure, Head, Query, Transport};
use tokio::runtime::Runtime;

use super::Args;
use super::nodes::{self, Hdfs};
use crate::environment::{Process, listens};
use crate::open_loop::{self, Outcome, Pace, Turn};

/// The port of a DataNode's stage.
const PORT: u16 = 9900;

/// A transport that delays some responses: the noise of document 003, §5.2, added at the client.
#[derive(Clone)]
struct Noisy {
    http: Arc<Http>,
    /// The possible delays, all equally likely.
    delays: Arc<[Duration]>,
    draws: Arc<Mutex<dyn FnMut() -> f64 + Send>>,
}

impl Transport for Noisy {
    type Request = Request;
    type Response = Response;

    async fn send(
        &self,
        server: ServerId,
        request: Request,
        copy: CopyHandle,
    ) -> Result<Head<Response>, Failure> {
        let head = self.http.send(server, request, copy).await?;
        let at = (self.draws.lock().unwrap_or_else(PoisonError::into_inner))();
        if let Some(delay) = self.delays.get((at * self.delays.len() as f64) as usize) {
            tokio::time::sleep(*delay).await;
        }
        Ok(head)
    }
}

/// The stages in front of all DataNodes. The stages end when this value is dropped.
pub(super) struct Stages {
    _processes: Vec<Process>,
    addresses: Vec<SocketAddr>,
}

impl Stages {
    /// Starts the stages. Call this from the main thread, because they end with the thread that
    /// starts them.
    pub(super) fn start(curtail: &str, slots: &str, hdfs: &Hdfs) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (mut processes, mut addresses) = (Vec::new(), Vec::new());
        for node in &hdfs.nodes {
            let address: SocketAddr = format!("{}:{PORT}", node.host.address).parse()?;
            let text = format!(
                "[[stage]]\nname = \"datanode\"\nkind = \"http\"\nlisten = \"{address}\"\n\
                 server = \"{}:{}\"\nslots = {slots}\n",
                node.host.address,
                nodes::PORT
            );
            let file = folder.path().join(&node.host.address);
            processes.push(node.host.stage(curtail, &file, &text)?);
            addresses.push(address);
        }
        hdfs.client.namespace.inside(|| addresses.iter().try_for_each(|at| listens(*at)))?;
        Ok(Self { _processes: processes, addresses })
    }
}

/// The setup that all turns share.
pub(super) struct Reads<'a> {
    pub(super) args: &'a Args,
    pub(super) hdfs: &'a Hdfs,
    pub(super) stages: Stages,
    runtime: Runtime,
    topology: Topology,
    /// The replica group of each file.
    groups: Vec<GroupId>,
    delays: Arc<[Duration]>,
}

impl<'a> Reads<'a> {
    pub(super) fn new(args: &'a Args, hdfs: &'a Hdfs, stages: Stages) -> Result<Self> {
        let mut all: Vec<Vec<ServerId>> = Vec::new();
        let mut groups = Vec::new();
        for file in 0..args.files {
            let mut replicas = hdfs.locations(file)?;
            replicas.sort_unstable();
            let replicas: Vec<ServerId> =
                replicas.iter().map(|&node| ServerId(node as u32)).collect();
            let known = all.iter().position(|group| *group == replicas);
            groups.push(GroupId(known.unwrap_or(all.len()) as u32));
            if known.is_none() {
                all.push(replicas);
            }
        }
        let topology =
            Topology { servers: vec![Server { slots: 1 }; hdfs.nodes.len()], groups: all };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let delays = match &args.noise {
            None => Arc::default(),
            Some(file) => delays(file, args.service_s() / 0.12)?,
        };
        Ok(Self { args, hdfs, stages, runtime, topology, groups, delays })
    }

    pub(super) fn run(&self) -> Result<Vec<Outcome>> {
        let Args { policies, loads, rounds, .. } = self.args;
        open_loop::run_turns(policies, loads, *rounds, |policy, load, round| {
            self.turn(policy, load, round)
        })
    }

    /// Runs one turn. All policies get the same requests in a round.
    fn turn(&self, policy: &Policy, load: f64, round: u64) -> Result<Turn> {
        let _inside = self.runtime.enter();
        let seed = self.args.seed.wrapping_mul(1_000_003).wrapping_add(round);
        let span = Duration::from_secs(60);
        let settings = Settings {
            priorities: policy.has_priorities(),
            // A response counts only when it is complete, because its body may still be slow after
            // its head has arrived.
            whole_bytes: 2 * self.args.bytes,
            read_timeout: span,
            ..Settings::default()
        };
        let http = Http::new(self.stages.addresses.iter().copied(), settings);
        let mut noise = rng(seed ^ 1 << 40);
        let transport = Noisy {
            http: Arc::new(http),
            delays: Arc::clone(&self.delays),
            draws: Arc::new(Mutex::new(move || unit(&mut noise))),
        };
        let cell = open_loop::cell(policy, &self.topology, transport, seed)?;
        let mut draws = rng(seed);
        let rate = load * self.hdfs.nodes.len() as f64 / self.args.service_s();
        let pace = Pace { rate, seconds: self.args.requests / rate, seed };
        let mut requests = Vec::new();
        for due in open_loop::arrivals(pace) {
            let file = (unit(&mut draws) * self.args.files as f64) as usize;
            let path = self.hdfs.path(file, 0, self.args.bytes);
            let request = Request::new("GET", &path, [("host", "datanode")], "", true)?;
            requests.push((due, Some("all"), Query::new(request).to_group(self.groups[file])));
        }
        let bytes = self.args.bytes;
        Ok(open_loop::run(&self.runtime, &cell, requests, move |response| async move {
            let good = response.head.status() == 200;
            let whole = response.whole(usize::MAX).await;
            good && whole.is_ok_and(|whole| whole.len() as u64 == bytes)
        }))
    }
}

/// Reads a file of durations and multiplies them by a factor.
fn delays(file: &Path, factor: f64) -> Result<Arc<[Duration]>> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let read = |line: &str| -> Result<Duration> {
        let ns = curtail_kernel::duration::parse(line.trim());
        let ns = ns.map_err(|why| anyhow::anyhow!("{}: {line:?} {why}", file.display()))?;
        Ok(Duration::from_nanos(ns).mul_f64(factor))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(read).collect()
}
