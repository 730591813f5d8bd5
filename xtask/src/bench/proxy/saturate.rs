//! What a request costs when there is nothing to decide: tiny answers from a fast server, 16
//! connections, each of which asks again as soon as it has its answer.
//!
//! No bound rests on it. The proxy has a core of its own; the server and the clients share another.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::child::{Child, free_address};
use super::install::{self, Found};
use super::peer::{self, Upstream};
use super::summary::Spread;
use super::{Bench, configs, table};
use crate::tied::tied;

const CONNECTIONS: u32 = 16;

/// Requests before the measured ones, in seconds.
const WARM_UP: u32 = 1;

/// A server of tiny answers on two addresses.
struct Backend {
    child: Child,
    addresses: Vec<SocketAddr>,
}

/// What one run cost.
struct Sample {
    name: &'static str,
    /// None without a proxy.
    cpu_us: Option<f64>,
    backend_us: f64,
    rate: f64,
}

/// What requests through one proxy cost.
pub(super) struct Cost {
    pub(super) name: &'static str,
    pub(super) cpu_us: Option<Spread>,
    pub(super) backend_us: Spread,
    pub(super) rate: Spread,
}

/// Where processes may run, where there is a choice.
#[derive(Clone, Copy)]
struct Cores {
    proxy: Option<usize>,
    others: Option<usize>,
}

pub(super) fn run(bench: &mut Bench) -> Result<bool> {
    let wrk = install::tool("wrk", bench.args.install)?;
    let nginx = install::tool("nginx", bench.args.install)?;
    let (Some(wrk), Some(nginx)) = (&wrk, &nginx) else {
        for (name, found) in [("wrk", &wrk), ("nginx", &nginx)] {
            if found.is_none() {
                bench.skip(name);
            }
        }
        if bench.args.json {
            println!("{}", serde_json::to_string_pretty(&bench.document())?);
        }
        return Ok(true);
    };
    let cores = cores()?;
    let backend = Backend::start(nginx, &bench.folder, cores)?;
    let mut samples = Vec::new();
    for round in 0..bench.args.runs {
        samples.push(sample(bench, wrk, &backend, cores, None)?);
        for found in bench.order(round) {
            samples.push(sample(bench, wrk, &backend, cores, Some(found))?);
        }
    }
    let names = std::iter::once(DIRECT).chain(bench.proxies.iter().map(|f| f.kind.name()));
    let costs: Vec<Cost> = names.filter_map(|name| cost(name, &samples)).collect();
    if bench.args.json {
        let mut document = bench.document();
        document["connections"] = json!(CONNECTIONS);
        document["pinned"] = json!(cores.proxy.is_some());
        document["costs"] = json!(costs.iter().map(Cost::document).collect::<Vec<_>>());
        document["samples"] = json!(samples.iter().map(Sample::document).collect::<Vec<_>>());
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        let (runs, seconds) = (bench.args.runs, bench.args.seconds);
        let place =
            if cores.proxy.is_some() { "the proxy on a core of its own" } else { "unpinned" };
        println!("\n{CONNECTIONS} connections, closed loop, {runs} runs of {seconds} s, {place}");
        print!("{}", table::costs(&costs));
    }
    Ok(true)
}

/// The name of runs without a proxy.
const DIRECT: &str = "none";

/// Two of the cores that this process may use; which ones need not begin with 0.
fn cores() -> Result<Cores> {
    let status = std::fs::read_to_string("/proc/self/status").context("no list of cores")?;
    let (others, proxy) = two_cores(&status)?;
    let pin = install::which("taskset").is_some();
    Ok(Cores { proxy: pin.then_some(proxy), others: pin.then_some(others) })
}

/// Of what `/proc/self/status` says: a list such as `0-3,8`.
fn two_cores(status: &str) -> Result<(usize, usize)> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.context("the system does not say which cores may be used")?.trim();
    let mut cores = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let core = |text: &str| {
            text.parse::<usize>().with_context(|| format!("{list:?} is no list of cores"))
        };
        cores.extend(core(first)?..=core(last)?);
    }
    match cores[..] {
        [others, proxy, ..] => Ok((others, proxy)),
        _ => anyhow::bail!(
            "this process may use core {list} alone; the proxy and its clients need one each"
        ),
    }
}

impl Backend {
    fn start(nginx: &Path, folder: &Path, cores: Cores) -> Result<Self> {
        let addresses = vec![free_address()?, free_address()?];
        let folder = folder.join("backend");
        std::fs::create_dir_all(&folder).with_context(|| format!("no folder {folder:?}"))?;
        let config = folder.join("backend.conf");
        let text = configs::tiny(&addresses, &folder);
        std::fs::write(&config, text).with_context(|| format!("cannot write {config:?}"))?;
        let mut command = tied(nginx, cores.others);
        command.arg("-p").arg(&folder).args(["-e", "stderr", "-c"]).arg(config);
        let mut child = Child::start("backend", command, &folder)?;
        for address in &addresses {
            child.answers(*address, "/health")?;
        }
        Ok(Self { child, addresses })
    }
}

/// One run through a proxy, or without one.
fn sample(
    bench: &Bench,
    wrk: &Path,
    backend: &Backend,
    cores: Cores,
    found: Option<&Found>,
) -> Result<Sample> {
    let upstream = Upstream { servers: backend.addresses.clone(), slots: CONNECTIONS };
    let proxy = found.map(|found| peer::start(found, &upstream, &bench.folder, cores.proxy));
    let proxy = proxy.transpose()?;
    let address = proxy.as_ref().map_or(backend.addresses[0], |proxy| proxy.address);
    ask(wrk, cores, address, WARM_UP)?;
    let cpu = || {
        let of_proxy = proxy.as_ref().map(|proxy| proxy.child.cpu_ns()).transpose()?;
        Ok::<_, anyhow::Error>((of_proxy, backend.child.cpu_ns()?))
    };
    let before = cpu()?;
    let (requests, rate) = ask(wrk, cores, address, bench.args.seconds)?;
    let after = cpu()?;
    let us = |after: u64, before: u64| after.saturating_sub(before) as f64 / 1e3 / requests;
    let sample = Sample {
        name: found.map_or(DIRECT, |found| found.kind.name()),
        cpu_us: after.0.zip(before.0).map(|(after, before)| us(after, before)),
        backend_us: us(after.1, before.1),
        rate,
    };
    eprintln!("{}: {rate:.0} requests/s, {:.1?} µs CPU/request", sample.name, sample.cpu_us);
    Ok(sample)
}

/// Asks for so many seconds: requests, and requests per second.
fn ask(wrk: &Path, cores: Cores, address: SocketAddr, seconds: u32) -> Result<(f64, f64)> {
    let mut command = tied(wrk, cores.others);
    command.args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{seconds}s")]);
    command.arg(format!("http://{address}/"));
    let output = command.output().context("wrk does not start")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let faults = said.contains("Non-2xx") || said.contains("Socket errors");
    ensure!(output.status.success() && !faults, "wrk is not content: {said}");
    figures(&said).with_context(|| format!("wrk says nothing: {said}"))
}

/// Requests, and requests per second, of what wrk prints.
fn figures(said: &str) -> Option<(f64, f64)> {
    let line = said.lines().find(|line| line.contains(" requests in "))?;
    let requests = line.split_whitespace().next()?.parse().ok()?;
    let rate = said.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"))?;
    Some((requests, rate.trim().parse().ok()?))
}

fn cost(name: &'static str, samples: &[Sample]) -> Option<Cost> {
    let own = || samples.iter().filter(|sample| sample.name == name);
    Some(Cost {
        name,
        cpu_us: Spread::of(own().filter_map(|sample| sample.cpu_us)),
        backend_us: Spread::of(own().map(|sample| sample.backend_us))?,
        rate: Spread::of(own().map(|sample| sample.rate))?,
    })
}

impl Sample {
    fn document(&self) -> Value {
        json!({
            "proxy": self.name,
            "cpu_us_per_request": self.cpu_us,
            "backend_cpu_us_per_request": self.backend_us,
            "requests_per_second": self.rate,
        })
    }
}

impl Cost {
    fn document(&self) -> Value {
        json!({
            "proxy": self.name,
            "cpu_us_per_request": self.cpu_us.map(Spread::document),
            "backend_cpu_us_per_request": self.backend_us.document(),
            "requests_per_second": self.rate.document(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_prints_is_read() {
        let said = "Running 5s test @ http://127.0.0.1:1/\n  1 threads and 16 connections\n  \
                    435210 requests in 5.00s, 63.91MB read\nRequests/sec:  87041.61\n\
                    Transfer/sec:     12.78MB\n";
        assert_eq!(figures(said), Some((435_210.0, 87_041.61)));
        assert_eq!(figures("unable to connect"), None);
    }

    #[test]
    fn the_cores_are_those_that_may_be_used() {
        let two = |list: &str| {
            two_cores(&format!("Name:\txtask\nCpus_allowed:\tff\nCpus_allowed_list:\t{list}\n"))
        };
        for (list, cores) in [("0-1", (0, 1)), ("3,8", (3, 8)), ("2,4-6", (2, 4)), ("5-9", (5, 6))]
        {
            assert_eq!(two(list).expect(list), cores, "{list}");
        }
        let error = two("7").unwrap_err().to_string();
        assert!(error.contains("may use core 7 alone"), "{error}");
        assert!(two("").is_err() && two("1-x").is_err() && two_cores("Name:\txtask\n").is_err());
    }
}
