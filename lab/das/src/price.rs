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
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use curtail_dist::seed::{rng, unit};
use curtail_kernel::stage::Priority;
use curtail_kernel::{Policy, Topology};
use curtail_load::Histogram;
use curtail_load::open_loop::latencies;
use curtail_machine::take_turns;
use curtail_stage::cpu::Mechanism;
use curtail_stage::get::{Addresses, Client, ClientOptions, Get, Key, Request, Response, Status};
use curtail_stage::link;
use serde::Serialize;
use tokio::runtime::Builder;
use xtask::process::Process;

use crate::dpnet::{SOCKET_BYTES, Servers, Size, flows, rate};
use crate::environment::{Host, Network, stage};
use crate::hdfs::disk::Disk;
use crate::turns::{self, Figures, figures};
use crate::{common::Common, common::print};

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
/// The rates of the idle links and of the web search's link in Mbit/s, and the web search's load as a
/// share of its link's capacity.
const IDLE_LINK: f64 = 20.0;
const SEARCH_LINK: f64 = 200.0;
const LOAD: f64 = 0.45;
const SEED: u64 = 42;
const PARTS: [&str; 3] = ["network", "idle", "disk"];
const CASES: [&str; 3] = ["alone", "low", "same"];
const LINKS: [&str; 3] = ["plain", "segments", "bands"];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Parts to measure
    #[arg(long = "part", default_values = PARTS, value_parser = PARTS)]
    parts: Vec<String>,
    /// Length of a turn of the web search. Turns of the idle link take a sixth of this time, and
    /// turns of a disk take a tenth
    #[arg(long, value_name = "SECONDS", default_value_t = 12.0)]
    seconds: f64,
}

/// The results of one turn: latencies in nanoseconds, and the throughput of the background.
struct Seen {
    latencies: Histogram<u64>,
    background_mbit: f64,
    stable: bool,
}

/// All turns of one case in one part.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    setting: Figures<f64>,
    case: &'static str,
    count: u64,
    stable: bool,
    ms: Figures<f64>,
    /// The figures divided by those of the first case.
    ratio: Figures<f64>,
    /// The share of requests that are hurt.
    hurt: f64,
    background_mbit: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!((1.0..=600.0).contains(&args.seconds), "--seconds: must be from 1 to 600");
    let Common { curtail, json, .. } = &args.common;
    let mut network = Network::enter(SOCKET_BYTES)?;
    // All processes start before this thread gets high priority, because they would inherit it.
    let disk = DiskServer::start(&mut network, curtail)?;
    let idle = Servers::start(&mut network, 20, LINKS.len() as u8, curtail, IDLE_LINK * 1e6)?;
    let search = Servers::start(&mut network, 30, 1, curtail, SEARCH_LINK * 1e6)?;
    one_band(&idle.hosts[0], 65_535)?;
    one_band(&idle.hosts[1], 1)?;
    Mechanism::find().enter(Priority::High)?;
    let mut parts = BTreeMap::new();
    for part in &args.parts {
        let rows = match &**part {
            "disk" => args.disk(&disk)?,
            "idle" => args.idle(&idle)?,
            _ => args.search(search.addresses[0])?,
        };
        parts.insert(&**part, rows);
    }
    print(&parts, *json)
}

/// Gives an idle link a single band. At most `segments` segments leave at once.
fn one_band(host: &Host, segments: u32) -> Result<()> {
    let bits = IDLE_LINK * 1e6;
    host.run("tc", "qdisc del dev eth0 root")?;
    host.run("tc", "qdisc replace dev eth0 root handle 1: htb default 1")?;
    host.run("tc", &format!("class replace dev eth0 parent 1: classid 1:1 htb rate {bits}bit"))?;
    host.run("ip", &format!("link set dev eth0 gso_max_segs {segments}"))
}

impl Args {
    fn search(&self, server: Addresses) -> Result<Vec<Row>> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let setting = BTreeMap::from([("link", SEARCH_LINK), ("load", LOAD)]);
        let options = ClientOptions { mechanism: Mechanism::find(), ..ClientOptions::default() };
        let policy = Policy::parse("random", None).context("a policy of the kernel")?;
        let rate = rate(LOAD, SEARCH_LINK * 1e6, Size::WebSearch.mean());
        // Every case gets the same requests in a round.
        self.rounds(&setting, CASES, |case, round| {
            let _inside = runtime.enter();
            let client = Client::new([server], options)?;
            let seed = SEED * 1_000_003 + round;
            let cell = turns::cell(&policy, &Topology::replicated(1, 1), client.clone(), seed)?;
            let requests = flows(&client, Size::WebSearch, rate, self.seconds, seed);
            let background = background(case, 1, |priority| {
                Worker::start(server.data, priority, || Key::made_up(BACKGROUND_BYTES))
            })?;
            let open = || turns::send(&runtime, &cell, requests, |_| async { true });
            let (turn, background_mbit) = beside(background, open)?;
            let all = turns::total(turn.values());
            let stable = turns::is_stable(&all);
            Ok(Seen { latencies: all.latencies, background_mbit, stable })
        })
    }

    fn idle(&self, servers: &Servers) -> Result<Vec<Row>> {
        let mut all = Vec::new();
        for pause in PAUSES {
            let setting = [("link", IDLE_LINK), ("pause_ms", pause.as_secs_f64() * 1e3)];
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
        let mut all = Vec::new();
        for (bytes, workers, reads) in DISKS {
            server.disk.set_rate((bytes as f64 / SERVICE_S) as u64);
            let setting =
                [("bytes", bytes as f64), ("workers", workers as f64), ("reads", reads as f64)];
            let seeds = AtomicU64::new(SEED);
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
                    let mut all = latencies();
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

    /// Lets the cases take turns.
    fn rounds(
        &self,
        setting: &Figures<f64>,
        cases: [&'static str; 3],
        turn: impl Fn(&str, u64) -> Result<Seen>,
    ) -> Result<Vec<Row>> {
        let wanted = self.common.rounds;
        let seen = take_turns(
            cases.len(),
            wanted.into(),
            |at, round| {
                eprintln!("{setting:?}, round {} of {wanted}: {}", round.calm + 1, cases[at]);
                turn(cases[at], round.number as u64)
            },
            |_| true,
        )?;
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

fn row(setting: &Figures<f64>, case: &'static str, first: &[Seen], seen: &[Seen]) -> Row {
    let sum = |turns: &[Seen]| {
        let mut all = latencies();
        turns.iter().for_each(|turn| all.add(&turn.latencies).expect("both resize themselves"));
        all
    };
    let (one, all) = (sum(first), sum(seen));
    let is_hurt = |quantile: &f64| {
        all.value_at_quantile(*quantile) as f64 > HURT * one.value_at_quantile(*quantile) as f64
    };
    let ranks = (0..200).map(|at| (f64::from(at) + 0.5) / 200.0);
    let (alone, ms) = (figures(&one), figures(&all));
    Row {
        setting: setting.clone(),
        case,
        count: all.len(),
        stable: seen.iter().all(|turn| turn.stable),
        ratio: ms.iter().map(|(name, ms)| (*name, ms / alone[name])).collect(),
        ms,
        hurt: ranks.filter(is_hurt).count() as f64 / 200.0,
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
            let (mut latencies, mut input) = (latencies(), BufReader::new(&own));
            loop {
                let (key, start) = (key(), Instant::now());
                match get(&own, &mut input, priority, key, &count) {
                    Ok(()) => latencies
                        .record(start.elapsed().as_nanos() as u64)
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

    /// Stops the worker and returns the latencies of its completed requests, in nanoseconds.
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
    host: Host,
    disk: Disk,
    _stage: Process,
    _folder: tempfile::TempDir,
}

impl DiskServer {
    fn start(network: &mut Network, curtail: &str) -> Result<Self> {
        let (host, folder) = (network.host(10, SOCKET_BYTES)?, tempfile::tempdir()?);
        let [stored, at] = ["stored", "disk"].map(|name| folder.path().join(name));
        fs::create_dir(&stored).and_then(|()| fs::create_dir(&at))?;
        File::create_new(stored.join("data"))?.set_len(FILE_BYTES)?;
        let config = [1, 4].map(|reads| {
            let [data, purge] =
                [7000, 8000].map(|port| format!("{}:{}", host.address, port + reads));
            format!(
                "[[stage]]\nname = \"disk-{reads}\"\nkind = \"get\"\nlisten = \"{data}\"\n\
                 purge = \"{purge}\"\nroot = \"{}\"\nreads = {reads}\n",
                at.display()
            )
        });
        let disk = Disk::mount(&stored, &at, 1 << 20)?;
        let mut command = host.command("nsenter");
        command.args(disk.entered()).arg(curtail);
        let command = stage(command, folder.path(), &config.concat())?;
        let mut stage = Process::start("disk", command, folder.path())?;
        stage.announced()?;
        Ok(Self { host, disk, _stage: stage, _folder: folder })
    }

    /// Returns the address of the stage with this number of concurrent reads.
    fn address(&self, reads: usize) -> SocketAddr {
        let port = 7000 + reads;
        format!("{}:{port}", self.host.address).parse().expect("an address and a port")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: std::ops::RangeInclusive<u64>, times: f64) -> Seen {
        let mut latencies = latencies();
        values.for_each(|ms| latencies.record((ms as f64 * 1e6 * times) as u64).expect("it grows"));
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
