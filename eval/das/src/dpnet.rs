//! A data-parallel network: nine data servers in separate namespaces, with their links as the
//! bottleneck.
//!
//! Source: document 003 §5.3, Figure 8. `curtail stage` runs on each server, whose link has two
//! bands. A client requests flows of 50 KB, or flows with web-search sizes, from the servers that
//! its policy picks. Background transfers of 10 MB, which are never duplicated, use 1 % of the
//! links' capacity.
//!
//! Deviations: the links have 20 Mbit/s instead of 1 Gbit/s, so that this machine is not the
//! bottleneck. Flows take fifty times as long. The source does not give the flow sizes of the web
//! search. The sizes used here are the usual ones for simulating its reference 13 (DCTCP), read
//! from the figure there.

use anyhow::{Result, ensure};
use curtail_dist::seed::{rng, unit};
use curtail_kernel::stage::Priority;
use curtail_kernel::{Policy, Topology};
use curtail_runtime::Query;
use curtail_stage::cpu::Mechanism;
use curtail_stage::get::{Addresses, Client, ClientOptions, Job, Key};
use tokio::runtime::Runtime;

use crate::environment::{Host, Network, Process, listens};
use crate::open_loop::{self, Pace, Requests, Turn};

/// The ports of each server.
const DATA_PORT: u16 = 7000;
const PURGE_PORT: u16 = 7001;
/// The size of a background transfer, in bytes.
const BACKGROUND_BYTES: u64 = 10_000_000;
/// The share of the capacity that background transfers use.
const BACKGROUND: f64 = 0.01;
/// Bytes on the wire per byte of data, with the headers of TCP, IP and Ethernet.
pub(crate) const OVERHEAD: f64 = 1514.0 / 1448.0;
/// The flow sizes of a web search in bytes, each with the share of flows that are at most this
/// large.
const WEB_SEARCH: [(f64, f64); 12] = [
    (1.0, 0.0),
    (10e3, 0.15),
    (20e3, 0.20),
    (30e3, 0.30),
    (50e3, 0.40),
    (80e3, 0.53),
    (200e3, 0.60),
    (1e6, 0.70),
    (2e6, 0.80),
    (5e6, 0.90),
    (10e6, 0.97),
    (30e6, 1.0),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Program that runs the stages on the servers
    #[arg(long, value_name = "FILE", default_value = "target/release/curtail")]
    curtail: String,
    /// Policies. The other policies are compared with the first
    #[arg(long = "policy", default_values = ["random", "naive", "delayed:60ms", "tied", "das:no-purge", "das"])]
    policies: Vec<String>,
    /// Loads of primaries, as shares of the links' capacity
    #[arg(long = "load", default_values_t = [0.15, 0.45, 0.75])]
    loads: Vec<f64>,
    /// Length of each turn
    #[arg(long, value_name = "SECONDS", default_value_t = 12.0)]
    seconds: f64,
    /// Number of turns of each policy at each load
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Flow size: a number of bytes, or `web-search`
    #[arg(long, value_name = "BYTES", default_value = "50000", value_parser = Size::parse)]
    size: Size,
    /// Rate of each server's link
    #[arg(long, value_name = "MBIT_PER_S", default_value_t = 20.0)]
    link: f64,
    #[arg(long, default_value_t = 9)]
    servers: u8,
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The flow sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Size {
    Fixed(u64),
    WebSearch,
}

impl Size {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "web-search" {
            return Ok(Self::WebSearch);
        }
        let bytes = text.parse().ok().filter(|bytes| (1..=1 << 30).contains(bytes));
        bytes.map(Self::Fixed).ok_or("write a number of bytes, or web-search".to_owned())
    }

    fn draw(self, uniform: f64) -> u64 {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::WebSearch => {
                let at = WEB_SEARCH.partition_point(|(_, share)| *share <= uniform);
                let [(low, from), (high, to)] = [WEB_SEARCH[at - 1], WEB_SEARCH[at]];
                (low + (high - low) * (uniform - from) / (to - from)) as u64
            }
        }
    }

    pub(crate) fn mean(self) -> f64 {
        match self {
            Self::Fixed(bytes) => bytes as f64,
            Self::WebSearch => {
                let part = |two: &[(f64, f64)]| (two[1].1 - two[0].1) * (two[0].0 + two[1].0) / 2.0;
                WEB_SEARCH.windows(2).map(part).sum()
            }
        }
    }

    /// Returns the size class of a flow, as in Figure 8 (a).
    fn class(self, bytes: u64) -> &'static str {
        match (self, bytes) {
            (Self::Fixed(_), _) => "all",
            (Self::WebSearch, 0..100_000) => "small",
            (Self::WebSearch, 100_000..10_000_000) => "medium",
            (Self::WebSearch, _) => "large",
        }
    }
}

/// The servers, and the host of the client.
pub(crate) struct Servers {
    pub(crate) client: Host,
    pub(crate) addresses: Vec<Addresses>,
    pub(crate) hosts: Vec<Host>,
    _network: Network,
    _stages: Vec<Process>,
}

impl Servers {
    /// Starts servers on links of this rate. Call this from the main thread, because the servers
    /// end with the thread that starts them.
    pub(crate) fn start(curtail: &str, count: u8, bits_per_s: f64) -> Result<Self> {
        let mut network = Network::new()?;
        let client = network.host(1, 4 << 20)?;
        let folder = tempfile::tempdir()?;
        let (mut hosts, mut stages, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..count {
            let host = network.host(10 + at, 4 << 20)?;
            host.limit(bits_per_s as u64)?;
            let listen = |port| format!("{}:{port}", host.address);
            let (data, purge) = (listen(DATA_PORT), listen(PURGE_PORT));
            let text = format!(
                "[[stage]]\nname = \"data\"\nkind = \"get\"\nlisten = \"{data}\"\npurge = \"{purge}\"\n"
            );
            stages.push(host.stage(curtail, &folder.path().join(format!("{at}.toml")), &text)?);
            addresses.push(Addresses { data: data.parse()?, purge: purge.parse()? });
            hosts.push(host);
        }
        client.namespace.inside(|| addresses.iter().try_for_each(|at| listens(at.purge)))?;
        Ok(Self { client, addresses, hosts, _network: network, _stages: stages })
    }
}

/// Returns flows at a given pace. The seed of the pace also determines the sizes of the flows.
pub(crate) fn flows(client: &Client, size: Size, pace: Pace) -> Requests<Job> {
    let mut draws = rng(pace.seed);
    let flow = |due| {
        let bytes = size.draw(unit(&mut draws));
        (due, Some(size.class(bytes)), Query::new(client.job(Key::made_up(bytes))))
    };
    open_loop::arrivals(pace).into_iter().map(flow).collect()
}

pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(args.servers >= 2 && args.servers < 200, "--servers: must be from 2 to 199");
    ensure!(
        args.loads.iter().all(|load| *load > 0.0 && *load < 2.0),
        "--load: must be above 0 and below 2"
    );
    ensure!(args.link >= 0.1 && args.link <= 10_000.0, "--link: must be from 0.1 to 10,000");
    ensure!((1..=100).contains(&args.rounds), "--rounds: must be from 1 to 100");
    let servers = Servers::start(&args.curtail, args.servers, args.link * 1e6)?;
    servers.client.namespace.enter()?;
    // The client handles responses in its own threads. The policy's threads get precedence over
    // them, because they start the requests that the handlers finish.
    Mechanism::find().enter(Priority::High)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let all =
        open_loop::run_turns(&args.policies, &args.loads, args.rounds, |policy, load, round| {
            args.turn(&runtime, &servers, policy, load, round)
        })?;
    open_loop::print(&all, args.json)
}

impl Args {
    /// Runs one turn. All policies get the same requests in a round.
    fn turn(
        &self,
        runtime: &Runtime,
        servers: &Servers,
        policy: &Policy,
        load: f64,
        round: u64,
    ) -> Result<Turn> {
        let _inside = runtime.enter();
        let options = ClientOptions {
            priorities: policy.has_priorities(),
            announce: true,
            mechanism: Mechanism::find(),
            ..ClientOptions::default()
        };
        let client = Client::new(servers.addresses.iter().copied(), options)?;
        let topology = Topology::replicated(u32::from(self.servers), 1);
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(round);
        let cell = open_loop::cell(policy, &topology, client.clone(), seed)?;
        let capacity = f64::from(self.servers) * self.link * 1e6 / 8.0 / OVERHEAD;
        let pace = |share: f64, bytes: f64, seed| Pace {
            rate: share * capacity / bytes,
            seconds: self.seconds,
            seed,
        };
        let mut requests = flows(&client, self.size, pace(load, self.size.mean(), seed));
        for due in open_loop::arrivals(pace(BACKGROUND, BACKGROUND_BYTES as f64, seed ^ 1 << 32)) {
            let background = Query::new(client.job(Key::made_up(BACKGROUND_BYTES)));
            requests.push((due, None, Query { may_duplicate: false, ..background }));
        }
        requests.sort_by_key(|(due, ..)| *due);
        Ok(open_loop::run(runtime, &cell, requests, |_| async { true }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_sizes_match_the_table_and_its_mean() {
        let size = Size::WebSearch;
        assert_eq!((size.draw(0.15), size.draw(0.53)), (10_000, 80_000));
        let count = 100_000_u32;
        let sum: u64 = (0..count).map(|at| size.draw(f64::from(at) / f64::from(count))).sum();
        let mean = sum as f64 / f64::from(count);
        assert!((mean / size.mean() - 1.0).abs() < 0.01, "{mean} {}", size.mean());
        assert_eq!(size.class(99_999), "small");
        assert_eq!(Size::parse("50000"), Ok(Size::Fixed(50_000)));
        assert!(Size::parse("0").is_err() && Size::parse("web").is_err());
    }
}
