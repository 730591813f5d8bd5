//! Turns: each turn starts a fresh contender in front of fresh leaves, and sends it an open loop.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::Args;
use crate::contender::Programs;
use crate::figures::{self, Row, Turn};
use crate::process::{self, Process};

const LEAVES: u32 = 4;
/// A leaf's service time, and its hiccups, which the copies of a query do not share.
const SERVICE: [&str; 4] = ["--service-time", "lognormal:10ms:0.05", "--hiccup", "0.02:200ms"];
/// A request that has no response after this time has failed, and this time counts as its latency.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of times that a turn is repeated because the load generator fell behind.
const AGAIN: usize = 2;
/// The time between the start of a contender and the first request, so that the start of its
/// process is not measured.
const SETTLE: Duration = Duration::from_millis(500);

/// The parameters of a round, the same for all contenders.
#[derive(Clone, Copy)]
struct Round {
    rate: u32,
    start: usize,
}

/// Measures all contenders at each rate. Each round starts with a different contender.
pub(crate) fn measure(args: &Args, programs: &Programs<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &rate in &args.rates {
        let mut turns: Vec<Vec<Turn>> = args.contenders.iter().map(|_| Vec::new()).collect();
        for start in 0..args.starts {
            for next in start..start + turns.len() {
                let at = next % turns.len();
                let name = &args.contenders[at];
                eprintln!("start {} of {}, {rate}/s: {name}", start + 1, args.starts);
                let round = Round { rate, start };
                let once = || turn(args, programs, name, round).with_context(|| name.clone());
                let mut turn = once()?;
                for _ in 0..AGAIN {
                    if turn.fell_behind {
                        eprintln!("the load generator fell behind; the turn is run again");
                        turn = once()?;
                    }
                }
                turns[at].push(turn);
            }
        }
        let row = |(name, turns): (&String, &Vec<Turn>)| figures::row(rate, name, turns);
        rows.extend(args.contenders.iter().zip(&turns).map(row));
    }
    Ok(rows)
}

fn turn(args: &Args, programs: &Programs<'_>, name: &str, round: Round) -> Result<Turn> {
    let leaves: Vec<_> = (0..LEAVES).map(|at| leaf(args, round, at)).collect::<Result<_>>()?;
    let addresses: Vec<SocketAddr> = leaves.iter().map(|(_, address)| *address).collect();
    let (_contender, address) = programs.start(name, &addresses)?;
    thread::sleep(SETTLE);
    let report = load(args, address, round)?;
    let (latencies, errors) = samples(&args.dir.join("load/samples.csv"))?;
    ensure!(latencies.len() == args.cold + args.warm, "{} samples", latencies.len());
    let copies = addresses.iter().map(|leaf| copies(*leaf)).sum::<Result<u64>>()?;
    let (cold, warm) = latencies.split_at(args.cold);
    let reasons = report["invalid_because"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(Turn {
        cold_ns: cold.to_vec(),
        warm_ns: warm.to_vec(),
        copies_per_request: copies as f64 / latencies.len() as f64,
        achieved: report["achieved_rate"].as_f64().context("no achieved rate")?,
        errors,
        is_valid: report["valid"] == true,
        fell_behind: !reasons.is_empty() && reasons.iter().all(|of| of["kind"] == "fell_behind"),
    })
}

/// Starts a leaf. In a round, each leaf has the same seed for all contenders, and each query has
/// the same service time.
fn leaf(args: &Args, round: Round, at: u32) -> Result<(Process, SocketAddr)> {
    let address = process::free_address()?;
    let mut command = process::command(&args.curtail);
    command.args(["leaf", "--listen", &address.to_string(), "--honor-cancel", "--queue", "4096"]);
    command.args(SERVICE).args(["--replica", &at.to_string(), "--seed", &round.start.to_string()]);
    Ok((Process::start(command, address, &args.dir.join(format!("leaf{at}.log")))?, address))
}

fn load(args: &Args, to: SocketAddr, round: Round) -> Result<Value> {
    let count = args.cold + args.warm;
    let (file, out) = (args.dir.join("queries.txt"), args.dir.join("load"));
    let mut queries = String::new();
    for at in 0..count {
        writeln!(queries, "/search?q=hedge&n={}.{at}", round.start)?;
    }
    fs::write(&file, queries)?;
    let mut command = process::command(&args.curtail);
    command.args(["load", &format!("http://{to}"), "--arrivals", "poisson", "--json", "--force"]);
    command.args(["--connections", "1024", "--samples", "csv", "--out"]).arg(&out);
    command.args(["--rate", &round.rate.to_string(), "--requests", &count.to_string()]);
    command.args(["--seed", &round.start.to_string(), "--queries"]).arg(file);
    command.args(["--timeout", &format!("{}s", TIMEOUT.as_secs())]);
    let done = command.stderr(Stdio::null()).output()?;
    // The exit code is 1 if the run is invalid.
    ensure!(matches!(done.status.code(), Some(0 | 1)), "curtail load ended with {}", done.status);
    serde_json::from_slice(&done.stdout).context("curtail load printed no JSON")
}

/// Returns the latencies in ns, in the order of the intended times, and the number of failed
/// requests.
fn samples(file: &Path) -> Result<(Vec<u64>, usize)> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| header.iter().position(|of| *of == name).context("not its columns");
    let (intended, done, good) = (column("intended_ns")?, column("done_ns")?, column("good")?);
    let mut errors = 0;
    let mut latencies = Vec::new();
    for line in lines {
        let values: Vec<&str> = line.split(',').collect();
        let at: u64 = values[intended].parse()?;
        let latency = values[done].parse::<u64>().ok().filter(|_| values[good] == "true");
        errors += usize::from(latency.is_none());
        let latency = latency.map_or(TIMEOUT.as_nanos() as u64, |done| done.saturating_sub(at));
        latencies.push((at, latency));
    }
    latencies.sort_unstable();
    Ok((latencies.into_iter().map(|(_, latency)| latency).collect(), errors))
}

/// Returns the number of copies that a leaf has received.
fn copies(leaf: SocketAddr) -> Result<u64> {
    let mut stream = TcpStream::connect(leaf)?;
    stream.write_all(b"GET /stats HTTP/1.1\r\nhost: leaf\r\nconnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let (_, body) = response.split_once("\r\n\r\n").context("no body")?;
    let stats: Value = serde_json::from_str(body)?;
    let counters = ["served", "cancelled", "refused", "failed", "busy", "waiting"];
    Ok(counters.iter().filter_map(|name| stats[name].as_u64()).sum())
}
