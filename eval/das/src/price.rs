//! Measures the cost of prioritization for high-priority requests, with and without a low-priority
//! background, on a link and at a disk. It also measures the cost of a two-band link without a
//! background.
//!
//! Source: document 003 §5.5, Figure 10. The cases of each part take turns, and each of them is
//! compared with the first:
//!
//! - `network`: web-search requests at medium load: without other traffic, together with one long
//!   low-priority flow, and together with that flow at the same priority;
//! - `idle`: consecutive flows of 50 KB over a plain link, over a link that sends its segments one
//!   by one, and over a two-band link, which also has to send them one by one;
//! - `disk`: workers that read random blocks: without other workers, together with low-priority
//!   workers, and together with the same number of workers of the same priority.
//!
//! Deviations: the links have 200 and 20 Mbit/s instead of 10 Gbit/s, so that this machine is not
//! the bottleneck. The disk is modeled, and reads one block at a time, each in 4 ms. The real disk
//! of this machine is in fact the memory of its host. Its throughput grows with the number of
//! readers until the processors are busy. The queue of the stage provides isolation, for which the
//! source used the CFQ scheduler.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use curtail_dist::seed::{rng, unit};
use curtail_kernel::stage::Priority;
use curtail_kernel::{Policy, Topology};
use curtail_stage::cpu::Mechanism;
use curtail_stage::get::{Client, ClientOptions, Get, Key, Request, Response, Status};
use curtail_stage::link;
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::runtime::Builder;

use crate::dpnet::{OVERHEAD, Servers, Size, flows};
use crate::environment::{Host, Network, Process, listens, run as done};
use crate::hdfs::disk::Disk;
use crate::open_loop::{self, Pace};

const QUANTILES: [(&str, f64); 6] =
    [("p10", 0.1), ("p20", 0.2), ("p40", 0.4), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];
/// A request is hurt if its latency is more than this multiple of the latency of the request with
/// the same rank in the run without a background.
const HURT: f64 = 1.1;
/// The size of a background request, and the time for which the background runs before a
/// measurement.
const BACKGROUND_BYTES: u64 = 1 << 30;
const RAMP: Duration = Duration::from_millis(500);
/// The size of a flow over an idle link.
const FLOW_BYTES: u64 = 50_000;
/// The pauses between consecutive flows. If a segment is larger than the allowance of `htb`, it is
/// sent immediately and `htb` waits afterward. After a pause, the plain link is therefore faster
/// than its nominal rate, which is impossible for a real link.
const PAUSES: [Duration; 2] = [Duration::ZERO, Duration::from_millis(10)];
/// The time that the disk takes for a block, and the size of its file, which is a multiple of both
/// block sizes.
const SERVICE_S: f64 = 0.004;
const FILE_BYTES: u64 = 64 << 20;
/// The number of low-priority workers.
const LOW_WORKERS: usize = 4;
/// The size of a block, the number of high-priority workers, and the number of concurrent reads of
/// the disk.
const DISKS: [(u64, usize, usize); 6] =
    [(4096, 1, 1), (4096, 4, 1), (4096, 4, 4), (131_072, 1, 1), (131_072, 4, 1), (131_072, 4, 4)];
const PARTS: [&str; 3] = ["network", "idle", "disk"];
const CASES: [&str; 3] = ["alone", "low", "same"];
const LINKS: [&str; 3] = ["plain", "segments", "bands"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Program that runs the stages on the servers
    #[arg(long, value_name = "FILE", default_value = "target/release/curtail")]
    curtail: String,
    /// Parts to measure
    #[arg(long = "part", default_values = PARTS, value_parser = PARTS)]
    parts: Vec<String>,
    /// Load of the web search, as a share of its link's capacity
    #[arg(long, default_value_t = 0.45)]
    load: f64,
    /// Length of a turn of the web search. Turns of the idle link take a sixth of this time, and
    /// turns of a disk take a tenth
    #[arg(long, value_name = "SECONDS", default_value_t = 12.0)]
    seconds: f64,
    /// Number of turns of each case
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Rate of the idle link
    #[arg(long, value_name = "MBIT_PER_S", default_value_t = 20.0)]
    link: f64,
    /// Rate of the web search's link
    #[arg(long, value_name = "MBIT_PER_S", default_value_t = 200.0)]
    search_link: f64,
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The results of one turn: latencies in microseconds, and the throughput of the background.
struct Seen {
    latencies: Histogram<u64>,
    background_mbit: f64,
    stable: bool,
}

/// All turns of one case in one part.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    setting: BTreeMap<&'static str, f64>,
    case: &'static str,
    count: u64,
    stable: bool,
    ms: BTreeMap<&'static str, f64>,
    /// Quantiles divided by those of the first case.
    ratio: BTreeMap<&'static str, f64>,
    /// The share of requests that are hurt.
    hurt: f64,
    background_mbit: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(args.load > 0.0 && args.load < 1.0, "--load: must be between 0 and 1");
    ensure!((1.0..=600.0).contains(&args.seconds), "--seconds: must be from 1 to 600");
    ensure!((1..=100).contains(&args.rounds), "--rounds: must be from 1 to 100");
    let links = [args.link, args.search_link];
    ensure!(
        links.iter().all(|link| (0.1..=10_000.0).contains(link)),
        "links: must be from 0.1 to 10,000"
    );
    // All processes start before this thread gets high priority, because they would inherit it.
    let disk = DiskServer::start(&args.curtail)?;
    let idle = Servers::start(&args.curtail, LINKS.len() as u8, args.link * 1e6)?;
    let search = Servers::start(&args.curtail, 1, args.search_link * 1e6)?;
    one_band(&idle.hosts[0], 65_535, args.link * 1e6)?;
    one_band(&idle.hosts[1], 1, args.link * 1e6)?;
    Mechanism::find().enter(Priority::High)?;
    let mut parts = BTreeMap::new();
    for part in &args.parts {
        let rows = match &**part {
            "disk" => args.disk(&disk)?,
            "idle" => args.idle(&idle)?,
            _ => args.search(&search)?,
        };
        parts.insert(&**part, rows);
    }
    if args.json {
        println!("{}", serde_json::to_string(&parts)?);
    } else {
        print(&parts);
    }
    Ok(())
}

/// Gives the link of a host a single band. At most `segments` segments leave at once.
fn one_band(host: &Host, segments: u32, bits_per_s: f64) -> Result<()> {
    let rate = format!("class replace dev eth0 parent 1: classid 1:1 htb rate {bits_per_s}bit");
    let commands = [
        ("tc", "qdisc del dev eth0 root"),
        ("tc", "qdisc replace dev eth0 root handle 1: htb default 1"),
        ("tc", &rate),
        ("ip", &format!("link set dev eth0 gso_max_segs {segments}")),
    ];
    let each = |(program, line): (&str, &str)| done(host.command(program).args(line.split(' ')));
    commands.into_iter().try_for_each(each)
}

impl Args {
    fn search(&self, servers: &Servers) -> Result<Vec<Row>> {
        servers.client.namespace.enter()?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let setting = BTreeMap::from([("link", self.search_link), ("load", self.load)]);
        let options = ClientOptions { mechanism: Mechanism::find(), ..ClientOptions::default() };
        let policy = Policy::parse("random", None).context("a policy of the kernel")?;
        let rate = self.load * self.search_link * 1e6 / 8.0 / OVERHEAD / Size::WebSearch.mean();
        let address = servers.addresses[0];
        // Every case gets the same requests in a round.
        self.rounds(&setting, CASES, |case, round| {
            let _inside = runtime.enter();
            let client = Client::new([address], options)?;
            let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(round);
            let cell = open_loop::cell(&policy, &Topology::replicated(1, 1), client.clone(), seed)?;
            let pace = Pace { rate, seconds: self.seconds, seed };
            let requests = flows(&client, Size::WebSearch, pace);
            let background = background(case, 1, |priority| {
                Worker::start(address.data, priority, || Key::made_up(BACKGROUND_BYTES))
            })?;
            let open = || open_loop::run(&runtime, &cell, requests, |_| async { true });
            let (turn, background_mbit) = beside(background, open)?;
            let mut latencies = open_loop::empty();
            turn.latencies.values().try_for_each(|of| latencies.add(of))?;
            Ok(Seen { latencies, background_mbit, stable: turn.is_stable() })
        })
    }

    fn idle(&self, servers: &Servers) -> Result<Vec<Row>> {
        servers.client.namespace.enter()?;
        let mut all = Vec::new();
        for pause in PAUSES {
            let setting = [("link", self.link), ("pause_ms", pause.as_secs_f64() * 1e3)];
            all.extend(self.rounds(&setting.into(), LINKS, |case, _| {
                let at = LINKS.iter().position(|link| *link == case).context("a link")?;
                let address = servers.addresses[at].data;
                let worker = Worker::start(address, Priority::High, move || {
                    thread::sleep(pause);
                    Key::made_up(FLOW_BYTES)
                })?;
                thread::sleep(Duration::from_secs_f64(self.seconds / 6.0));
                Ok(Seen { latencies: worker.stop()?, background_mbit: 0.0, stable: true })
            })?);
        }
        Ok(all)
    }

    fn disk(&self, server: &DiskServer) -> Result<Vec<Row>> {
        server.client.namespace.enter()?;
        let mut all = Vec::new();
        for (bytes, workers, reads) in DISKS {
            server.disk.set_rate((bytes as f64 / SERVICE_S) as u64);
            let setting =
                [("bytes", bytes as f64), ("workers", workers as f64), ("reads", reads as f64)];
            let seeds = AtomicU64::new(self.seed);
            let worker = |priority| {
                let mut draws = rng(seeds.fetch_add(1, Ordering::Relaxed));
                Worker::start(server.address(reads), priority, move || {
                    let block = (unit(&mut draws) * (FILE_BYTES / bytes) as f64) as u64;
                    Key { name: "data".into(), offset: block * bytes, length: bytes }
                })
            };
            all.extend(self.rounds(&setting.into(), CASES, |case, _| {
                let background = background(case, LOW_WORKERS, worker)?;
                let (latencies, background_mbit) = beside(background, || {
                    let primaries = (0..workers).map(|_| worker(Priority::High));
                    let primaries = primaries.collect::<Result<Vec<_>>>()?;
                    thread::sleep(Duration::from_secs_f64(self.seconds / 10.0));
                    let mut all = open_loop::empty();
                    for worker in primaries {
                        all.add(worker.stop()?)?;
                    }
                    Ok::<_, anyhow::Error>(all)
                })?;
                Ok(Seen { latencies: latencies?, background_mbit, stable: true })
            })?);
        }
        Ok(all)
    }

    /// Lets the cases take turns. The order rotates from round to round.
    fn rounds(
        &self,
        setting: &BTreeMap<&'static str, f64>,
        cases: [&'static str; 3],
        turn: impl Fn(&str, u64) -> Result<Seen>,
    ) -> Result<Vec<Row>> {
        let mut seen = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..self.rounds {
            for next in 0..cases.len() {
                let at = (next + round as usize) % cases.len();
                eprintln!("{setting:?}, round {} of {}: {}", round + 1, self.rounds, cases[at]);
                seen[at].push(turn(cases[at], round)?);
            }
        }
        Ok((0..cases.len()).map(|at| row(setting, cases[at], &seen[0], &seen[at])).collect())
    }
}

/// Starts the background workers of a case.
fn background(
    case: &str,
    count: usize,
    worker: impl Fn(Priority) -> Result<Worker>,
) -> Result<Vec<Worker>> {
    let priority = match case {
        "alone" => return Ok(Vec::new()),
        "low" => Priority::Low,
        _ => Priority::High,
    };
    let workers = (0..count).map(|_| worker(priority)).collect();
    thread::sleep(RAMP);
    workers
}

/// Runs `work` together with a background, which ends afterward. Returns the result, and the
/// throughput of the background in Mbit/s.
fn beside<T>(background: Vec<Worker>, work: impl FnOnce() -> T) -> Result<(T, f64)> {
    let so_far = || background.iter().map(|of| of.bytes.load(Ordering::Relaxed)).sum::<u64>();
    let (start, before) = (Instant::now(), so_far());
    let done = work();
    let mbit = (so_far() - before) as f64 * 8e-6 / start.elapsed().as_secs_f64();
    background.into_iter().try_for_each(|worker| worker.stop().map(drop))?;
    Ok((done, mbit))
}

fn row(
    setting: &BTreeMap<&'static str, f64>,
    case: &'static str,
    first: &[Seen],
    seen: &[Seen],
) -> Row {
    let sum = |turns: &[Seen]| {
        let mut all = open_loop::empty();
        turns.iter().for_each(|turn| all.add(&turn.latencies).expect("both resize themselves"));
        all
    };
    let (one, all) = (sum(first), sum(seen));
    let over = |all: &Histogram<u64>, one: &Histogram<u64>, quantile| {
        all.value_at_quantile(quantile) as f64 / one.value_at_quantile(quantile) as f64
    };
    let ranks = (0..200).map(|at| (f64::from(at) + 0.5) / 200.0);
    Row {
        setting: setting.clone(),
        case,
        count: all.len(),
        stable: seen.iter().all(|turn| turn.stable),
        ms: QUANTILES.map(|(name, at)| (name, all.value_at_quantile(at) as f64 / 1e3)).into(),
        ratio: QUANTILES.map(|(name, at)| (name, over(&all, &one, at))).into(),
        hurt: ranks.filter(|at| over(&all, &one, *at) > HURT).count() as f64 / 200.0,
        background_mbit: seen.iter().map(|turn| turn.background_mbit).sum::<f64>()
            / seen.len() as f64,
    }
}

/// Sends requests one after the other over its own connection.
struct Worker {
    stream: TcpStream,
    thread: JoinHandle<io::Result<Histogram<u64>>>,
    /// Bytes of data received so far.
    bytes: Arc<AtomicU64>,
}

/// The next job number. Numbers are unique.
static JOBS: AtomicU64 = AtomicU64::new(1);

impl Worker {
    fn start(
        address: SocketAddr,
        priority: Priority,
        mut key: impl FnMut() -> Key + Send + 'static,
    ) -> Result<Self> {
        let stream =
            TcpStream::connect(address).with_context(|| format!("no server at {address}"))?;
        stream.set_nodelay(true)?;
        link::mark(&stream, priority)?;
        let (own, bytes, mechanism) = (stream.try_clone()?, Arc::default(), Mechanism::find());
        let count = Arc::clone(&bytes);
        let thread = thread::spawn(move || {
            mechanism.enter(priority)?;
            let (mut latencies, mut input) = (open_loop::empty(), BufReader::new(&own));
            loop {
                let (key, start) = (key(), Instant::now());
                match get(&own, &mut input, priority, key, &count) {
                    Ok(()) => latencies
                        .record(start.elapsed().as_micros() as u64)
                        .map_err(io::Error::other)?,
                    // An error status from the server counts as an error. A connection error is the
                    // normal end, because `stop` shuts the connection down.
                    Err(error) if error.kind() == io::ErrorKind::Other => return Err(error),
                    Err(_) => return Ok(latencies),
                }
            }
        });
        Ok(Self { stream, thread, bytes })
    }

    /// Stops the worker and returns the latencies of its completed requests, in microseconds.
    fn stop(self) -> Result<Histogram<u64>> {
        ensure!(!self.thread.is_finished(), "a server closed a connection");
        self.stream.shutdown(Shutdown::Both)?;
        let Ok(done) = self.thread.join() else { bail!("a worker panicked") };
        Ok(done?)
    }
}

fn get(
    mut stream: &TcpStream,
    input: &mut BufReader<&TcpStream>,
    priority: Priority,
    Key { name, offset, length }: Key,
    bytes: &AtomicU64,
) -> io::Result<()> {
    let job = JOBS.fetch_add(1, Ordering::Relaxed);
    let mut wire = Default::default();
    Request::Get(Get { job, priority, name, offset, length, announce: false }).write(&mut wire);
    // If the connection was shut down, the read below fails as well.
    let _ = stream.write_all(&wire);
    loop {
        let mut head = [0; 24];
        input.read_exact(&mut head)?;
        let response = Response::read(&head).map_err(io::Error::other)?;
        if response.status != Status::Data {
            return Err(io::Error::other(format!("{:?}", response.status)));
        }
        let read = io::copy(&mut input.take(response.length), &mut io::sink())?;
        bytes.fetch_add(read, Ordering::Relaxed);
        if read < response.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !response.more {
            return Ok(());
        }
    }
}

/// A server of files on a disk, with two stages in front of it: one for a single concurrent read,
/// and one for four.
struct DiskServer {
    client: Host,
    server: Host,
    disk: Arc<Disk>,
    _network: Network,
    _stage: Process,
    _folder: tempfile::TempDir,
}

impl DiskServer {
    fn start(curtail: &str) -> Result<Self> {
        let (mut network, folder) = (Network::new()?, tempfile::tempdir()?);
        let (client, server) = (network.host(1, 4 << 20)?, network.host(10, 4 << 20)?);
        let [stored, at, file] =
            ["stored", "disk", "stage.toml"].map(|name| folder.path().join(name));
        fs::create_dir(&stored).and_then(|()| fs::create_dir(&at))?;
        File::create_new(stored.join("data"))?.set_len(FILE_BYTES)?;
        let stage = |reads: usize| {
            let [data, purge] =
                [7000, 8000].map(|port| format!("{}:{}", server.address, port + reads));
            format!(
                "[[stage]]\nname = \"disk-{reads}\"\nkind = \"get\"\nlisten = \"{data}\"\n\
                 purge = \"{purge}\"\nroot = \"{}\"\nreads = {reads}\n",
                at.display()
            )
        };
        fs::write(&file, stage(1) + &stage(4))?;
        let mut command = server.command("unshare");
        let disk = Disk::mount(&mut command, &stored, &at, 1 << 20)?;
        command.arg(curtail).args(["stage", "--config"]).arg(&file).stderr(Stdio::null());
        let stage = Process::start(&mut command)?;
        let started =
            Self { client, server, disk, _network: network, _stage: stage, _folder: folder };
        let addresses = [1, 4].map(|reads| started.address(reads));
        started.client.namespace.inside(|| addresses.into_iter().try_for_each(listens))?;
        Ok(started)
    }

    /// Returns the address of the stage with this number of concurrent reads.
    fn address(&self, reads: usize) -> SocketAddr {
        let port = 7000 + reads;
        format!("{}:{port}", self.server.address).parse().expect("an address and a port")
    }
}

/// Prints the table, with the first case in ms and the others as ratios to it.
fn print(parts: &BTreeMap<&str, Vec<Row>>) {
    for (part, rows) in parts {
        println!(
            "{part:<8}{:<34}{:<9}{:>7}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>7}{:>12}",
            "", "case", "count", "p10", "p20", "p40", "p50", "p90", "p99", "hurt", "background"
        );
        for row in rows {
            let setting = row.setting.iter().map(|(name, value)| format!("{name}={value}"));
            let setting = setting.collect::<Vec<_>>().join(" ");
            let is_first = row.ratio.values().all(|ratio| *ratio == 1.0);
            let figure = |(name, _): &(&str, f64)| match is_first {
                true => format!("{:>6.1}ms", row.ms[name]),
                false => format!("{:>7.2}x", row.ratio[name]),
            };
            let figures: String = QUANTILES.iter().map(figure).collect();
            let stable = if row.stable { "" } else { "  UNSTABLE" };
            println!(
                "        {setting:<34}{:<9}{:>7}{figures}{:>6.0}%{:>7.1} Mbit{stable}",
                row.case,
                row.count,
                row.hurt * 100.0,
                row.background_mbit
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: std::ops::RangeInclusive<u64>, times: f64) -> Seen {
        let mut latencies = open_loop::empty();
        values.for_each(|ms| latencies.record((ms as f64 * 1e3 * times) as u64).expect("it grows"));
        Seen { latencies, background_mbit: 8.0, stable: true }
    }

    #[test]
    fn cases_are_compared_with_the_first() {
        let near = |is: f64, wanted: f64| (is / wanted - 1.0).abs() < 0.02;
        let first = [seen(1..=100, 1.0), seen(1..=100, 1.0)];
        let row = |other: &[Seen]| row(&BTreeMap::new(), "low", &first, other);
        let slower = row(&[seen(1..=100, 1.0), seen(1..=100, 2.0)]);
        assert_eq!((slower.count, slower.background_mbit), (200, 8.0));
        assert!(near(slower.ms["p99"], 198.0) && near(slower.ratio["p99"], 2.0), "{slower:?}");
        assert!(row(&first).hurt == 0.0 && slower.hurt > 0.9, "{slower:?}");
    }
}
