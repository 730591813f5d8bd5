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

use std::time::Duration;

use anyhow::{Result, ensure};
use curtail_dist::seed::{rng, unit};
use curtail_kernel::stage::Priority;
use curtail_kernel::{Policy, Topology};
use curtail_load::open_loop::{Request, poisson};
use curtail_runtime::Query;
use curtail_stage::cpu::Mechanism;
use curtail_stage::get::{Addresses, Client, ClientOptions, Job, Key};
use tokio::runtime::Runtime;
use xtask::process::Process;

use crate::environment::{Host, Network};
use crate::turns::{self, BACKGROUND, Turn};
use crate::{common::Common, common::print};

const SERVERS: u8 = 9;
const SEED: u64 = 42;
/// The maximum size of the socket buffers.
pub(crate) const SOCKET_BYTES: u32 = 4 << 20;
/// The size of a background transfer, in bytes.
const BACKGROUND_BYTES: u64 = 10_000_000;
/// The share of the capacity that background transfers use.
const BACKGROUND_LOAD: f64 = 0.01;
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
    #[command(flatten)]
    common: Common,
    /// Policies. The other policies are compared with the first
    #[arg(long = "policy", default_values = ["random", "naive", "delayed:60ms", "tied", "das:no-purge", "das"])]
    policies: Vec<String>,
    /// Loads of primaries, as shares of the links' capacity
    #[arg(long = "load", default_values_t = [0.15, 0.45, 0.75], value_parser = turns::share)]
    loads: Vec<f64>,
    /// Length of each turn
    #[arg(long, value_name = "SECONDS", default_value_t = 12.0)]
    seconds: f64,
    /// Flow size: a number of bytes, or `web-search`
    #[arg(long, value_name = "BYTES", default_value = "50000", value_parser = Size::parse)]
    size: Size,
    /// Rate of each server's link
    #[arg(long, value_name = "MBIT_PER_S", default_value_t = 20.0)]
    link: f64,
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

/// Servers of made-up data. They end when this value is dropped.
pub(crate) struct Servers {
    pub(crate) addresses: Vec<Addresses>,
    pub(crate) hosts: Vec<Host>,
    _stages: Vec<Process>,
}

impl Servers {
    /// Starts servers, with links of this rate and with addresses from `first` on. Call this from
    /// the main thread, because the servers end with the thread that starts them.
    pub(crate) fn start(
        network: &mut Network,
        first: u8,
        count: u8,
        curtail: &str,
        bits_per_s: f64,
    ) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (mut hosts, mut stages, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        for last in first..first + count {
            let host = network.host(last, SOCKET_BYTES)?;
            host.limit(bits_per_s as u64)?;
            let [data, purge] = [7000, 7001].map(|port| format!("{}:{port}", host.address));
            let text = format!(
                "[[stage]]\nname = \"data\"\nkind = \"get\"\nlisten = \"{data}\"\npurge = \"{purge}\"\n"
            );
            stages.push(host.stage(curtail, folder.path(), &text)?);
            addresses.push(Addresses { data: data.parse()?, purge: purge.parse()? });
            hosts.push(host);
        }
        Ok(Self { addresses, hosts, _stages: stages })
    }
}

/// The rate of flows at a share of the capacity of links, in flows per second.
pub(crate) fn rate(share: f64, links_bits: f64, flow_bytes: f64) -> f64 {
    share * links_bits / 8.0 / OVERHEAD / flow_bytes
}

/// Returns flows at a given rate. The seed also determines the sizes of the flows.
pub(crate) fn flows(
    client: &Client,
    size: Size,
    rate: f64,
    seconds: f64,
    seed: u64,
) -> Vec<Request<&'static str, Query<Job>>> {
    let mut draws = rng(seed);
    let flow = |due| {
        let bytes = size.draw(unit(&mut draws));
        let what = Query::new(client.job(Key::made_up(bytes)));
        Request { due, class: size.class(bytes), what }
    };
    poisson(rate, Duration::from_secs_f64(seconds), seed).map(flow).collect()
}

pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!((0.1..=3600.0).contains(&args.seconds), "--seconds: must be from 0.1 to 3600");
    ensure!((0.1..=10_000.0).contains(&args.link), "--link: must be from 0.1 to 10,000");
    let mut network = Network::enter(SOCKET_BYTES)?;
    let Common { curtail, rounds, json } = &args.common;
    let servers = Servers::start(&mut network, 10, SERVERS, curtail, args.link * 1e6)?;
    // The client handles responses in its own threads. The policy's threads get precedence over
    // them, because they start the requests that the handlers finish.
    Mechanism::find().enter(Priority::High)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let all = turns::run(&args.policies, &args.loads, *rounds, |policy, load, round| {
        args.turn(&runtime, &servers, policy, load, round)
    })?;
    print(&all, *json)
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
        let topology = Topology::replicated(SERVERS.into(), 1);
        let seed = SEED * 1_000_003 + round;
        let cell = turns::cell(policy, &topology, client.clone(), seed)?;
        let links = f64::from(SERVERS) * self.link * 1e6;
        let (load, background) = (
            rate(load, links, self.size.mean()),
            rate(BACKGROUND_LOAD, links, BACKGROUND_BYTES as f64),
        );
        let mut requests = flows(&client, self.size, load, self.seconds, seed);
        for due in poisson(background, Duration::from_secs_f64(self.seconds), seed ^ 1 << 32) {
            let what = Query::new(client.job(Key::made_up(BACKGROUND_BYTES)));
            let what = Query { may_duplicate: false, ..what };
            requests.push(Request { due, class: BACKGROUND, what });
        }
        requests.sort_by_key(|request| request.due);
        Ok(turns::send(runtime, &cell, requests, |_| async { true }))
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
