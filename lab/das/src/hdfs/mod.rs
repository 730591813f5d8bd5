//! HDFS with slow disks: reads of 10 MB or 1 MB over WebHDFS from any replica, with a Proxy D-Stage
//! in front of each DataNode. The DataNodes run unmodified.
//!
//! Source: document 003, §5.1 and §5.2, Figures 1, 6 and 7. Deviations: the disks are modeled in
//! user space, because control groups would let a tenth of a second's worth of data through
//! immediately. There are three DataNodes instead of ten or sixty. The noise of §5.2 delays
//! responses at the client, so a late response occupies nothing at its node.

mod cluster;
pub(crate) mod disk;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::value_parser;
use curtail_dist::seed::{rng, unit};
use curtail_kernel::{Policy, ServerId, Topology};
use curtail_load::open_loop::{Request as Due, poisson};
use curtail_runtime::http::{Http, Request, Response, Settings};
use curtail_runtime::{CopyContext, Failure, Head, Query, Transport};
use tokio::runtime::{Builder, Runtime};

use crate::environment::Network;
use crate::turns::{self, Turn};
use crate::{common::Common, common::print};
use cluster::{Hdfs, NODES, Options, SOCKET_BYTES};

/// The folder for Hadoop (65 MB) and for the data that nodes store while they run.
const DIR: &str = "out/das/hdfs";
const FILES: usize = 30;
const SEED: u64 = 42;
/// The port of a DataNode's stage.
const PORT: u16 = 9900;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Policies. The other policies are compared with the first
    #[arg(long = "policy", default_values = ["random", "naive", "delayed:480ms", "app-timeout:480ms", "das"])]
    policies: Vec<String>,
    /// Loads of primaries, as shares of the disks' capacity
    #[arg(long = "load", default_values_t = [0.15, 0.45, 0.75], value_parser = turns::share)]
    loads: Vec<f64>,
    /// Approximate number of reads in each turn
    #[arg(long, default_value_t = 150, value_parser = value_parser!(u32).range(1..=1_000_000))]
    requests: u32,
    /// Size of a file, which is also the size of a read. A block has 16777216 bytes
    #[arg(long, value_name = "BYTES", default_value_t = 10_000_000, value_parser = value_parser!(u64).range(1..=16 << 20))]
    bytes: u64,
    /// Rate of each disk
    #[arg(long, value_name = "BYTES_PER_S", default_value_t = 20_000_000, value_parser = value_parser!(u64).range(1..))]
    rate: u64,
    /// Rate of the first disk, which makes it a straggler
    #[arg(long, value_name = "BYTES_PER_S", value_parser = value_parser!(u64).range(1..))]
    straggler: Option<u64>,
    /// Rate of each DataNode's link. A limited link has two bands. By default the link is as fast
    /// as the machine
    #[arg(long, value_name = "BITS_PER_S")]
    network: Option<u64>,
    /// File of response delays, one per line, for a disk that takes 120 ms. They are scaled for
    /// other disks
    #[arg(long, value_name = "FILE")]
    noise: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let Args { rate, network: link, bytes: file_bytes, .. } = *args;
    let Common { curtail, rounds, json } = &args.common;
    // The time that a disk takes for a read.
    let service_s = file_bytes as f64 / rate as f64;
    let delays = match &args.noise {
        None => Arc::default(),
        Some(file) => delays(file, service_s / 0.12)?,
    };
    let dir = cluster::fetch(Path::new(DIR))?;
    let mut network = Network::enter(SOCKET_BYTES)?;
    eprintln!("starting HDFS");
    let options = Options { files: FILES, file_bytes, rate, network: link };
    let hdfs = Hdfs::start(&mut network, options, &dir)?;
    let folder = tempfile::tempdir()?;
    let (mut stages, mut addresses) = (Vec::new(), Vec::new());
    for node in &hdfs.nodes {
        let address = &node.host.address;
        let text = format!(
            "[[stage]]\nname = \"datanode\"\nkind = \"http\"\nlisten = \"{address}:{PORT}\"\n\
             server = \"{address}:{}\"\nslots = \"auto\"\n",
            cluster::PORT
        );
        stages.push(node.host.stage(curtail, folder.path(), &text)?);
        addresses.push(format!("{address}:{PORT}"));
    }
    if let Some(straggler) = args.straggler {
        hdfs.nodes[0].disk.set_rate(straggler);
    }
    let read = || hdfs.nodes.iter().map(|node| node.disk.read_bytes());
    let before: Vec<u64> = read().collect();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let reads = Reads { args, runtime, service_s, addresses, delays };
    let outcomes = turns::run(&args.policies, &args.loads, *rounds, |policy, load, round| {
        reads.turn(policy, load, round)
    })?;
    let served: Vec<u64> = read().zip(before).map(|(now, before)| now - before).collect();
    eprintln!("bytes read from disks, by node: {served:?}");
    print(&outcomes, *json)
}

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
        copy: CopyContext,
    ) -> Result<Head<Response>, Failure> {
        let head = self.http.send(server, request, copy).await?;
        let at = (self.draws.lock().unwrap_or_else(PoisonError::into_inner))();
        if let Some(delay) = self.delays.get((at * self.delays.len() as f64) as usize) {
            tokio::time::sleep(*delay).await;
        }
        Ok(head)
    }
}

/// The setup that all turns share.
struct Reads<'a> {
    args: &'a Args,
    runtime: Runtime,
    service_s: f64,
    /// The addresses of the stages.
    addresses: Vec<String>,
    delays: Arc<[Duration]>,
}

impl Reads<'_> {
    /// Runs one turn. All policies get the same requests in a round.
    fn turn(&self, policy: &Policy, load: f64, round: u64) -> Result<Turn> {
        let _inside = self.runtime.enter();
        let (bytes, seed) = (self.args.bytes, SEED * 1_000_003 + round);
        let settings = Settings {
            priorities: policy.has_priorities(),
            // A response counts only when it is complete, because its body may still be slow after
            // its head has arrived.
            whole_bytes: 2 * bytes,
            read_timeout: Duration::from_secs(60),
            ..Settings::default()
        };
        let addresses = self.addresses.iter().map(|address| address.parse::<SocketAddr>());
        let http = Http::new(addresses.collect::<Result<Vec<_>, _>>()?, settings);
        let mut noise = rng(seed ^ 1 << 40);
        let transport = Noisy {
            http: Arc::new(http),
            delays: Arc::clone(&self.delays),
            draws: Arc::new(Mutex::new(move || unit(&mut noise))),
        };
        // Every node holds every file.
        let topology = Topology::replicated(NODES as u32, 1);
        let cell = turns::cell(policy, &topology, transport, seed)?;
        let mut draws = rng(seed);
        let rate = load * NODES as f64 / self.service_s;
        let mut requests = Vec::new();
        for due in
            poisson(rate, Duration::from_secs_f64(f64::from(self.args.requests) / rate), seed)
        {
            let file = (unit(&mut draws) * FILES as f64) as usize;
            let path = cluster::path(file, bytes);
            let request = Request::new("GET", &path, [("host", "datanode")], "", true)?;
            requests.push(Due { due, class: "all", what: Query::new(request) });
        }
        Ok(turns::send(&self.runtime, &cell, requests, move |response| async move {
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
        let ns = ns.map_err(|why| anyhow!("{}: {line:?} {why}", file.display()))?;
        Ok(Duration::from_nanos(ns).mul_f64(factor))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(read).collect()
}
