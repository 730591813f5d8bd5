//! What `curtail load` is told, and the plan that comes of it.

use std::path::PathBuf;

use curtail_load::{Arrivals, Extent, Plan, QueryOrder, Target};

use super::protocol::ProtocolArgs;
use crate::exit::Stop;

/// Send requests at a fixed rate, whatever the answers do, and report honest latencies.
///
/// Open loop: every request has an intended time, and its latency counts from there, so a stall
/// shows in all requests that it delays. The run is *invalid* (exit code 1) when the figures would
/// not be of the load that was asked for.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail load http://127.0.0.1:8080/search?q=rust --rate 500 --duration 10s
  curtail load http://127.0.0.1:8080 --rate 200 --queries targets.txt --json
  curtail load https://127.0.0.1:8443/a --http2 --cacert ca.pem --rate 2000
  curtail load grpc://127.0.0.1:50051/shop.Cart/Get --proto cart.proto --data '{\"id\": 7}' --rate 500
  curtail load redis://127.0.0.1:6379 --data 'GET user:{key}' --keys 10000 --rate 5000
  curtail load udp://127.0.0.1:7000 --size 128 --rate 10000")]
pub(crate) struct Args {
    /// Where to: http://HOST:PORT/PATH, or https, grpc, grpcs, memcached, redis, tcp or udp
    target: Target,
    /// Requests per second
    #[arg(long, value_name = "N", value_parser = number)]
    rate: f64,
    /// Gaps between requests: poisson or constant
    #[arg(long, default_value = "poisson")]
    arrivals: Arrivals,
    /// For how long
    #[arg(long, default_value = "10s", value_name = "SPAN", value_parser = span, conflicts_with = "requests", allow_hyphen_values = true)]
    duration: u64,
    /// So many requests, rather than a duration
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Requests sent before the measured ones
    #[arg(long, default_value = "0s", value_name = "SPAN", value_parser = span, allow_hyphen_values = true)]
    warmup: u64,
    /// Connections at most
    #[arg(long, default_value_t = 64, value_name = "N")]
    connections: usize,
    /// Threads that send
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,
    /// Never sleep while waiting: more exact, and takes a processor per thread
    #[arg(long)]
    spin: bool,
    /// A request without an answer for so long has failed
    #[arg(long, default_value = "10s", value_name = "SPAN", value_parser = span, allow_hyphen_values = true)]
    timeout: u64,
    /// A header to send, like 'x-shard: 0'; may be repeated
    #[arg(long, value_name = "K: V", value_parser = curtail_load::parse_header)]
    header: Vec<(String, String)>,
    /// Requests, one per line, sent in turn: targets or JSON objects (HTTP), messages, commands or text
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Draw from the queries at random rather than in turn
    #[arg(long, requires = "queries")]
    shuffle: bool,
    /// Same seed, same schedule and queries
    #[arg(long, default_value_t = 42, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    protocol: ProtocolArgs,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(super) json: bool,
}

pub(crate) fn span(text: &str) -> Result<u64, String> {
    curtail_kernel::duration::parse(text).map_err(|error| error.to_string())
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "write a number such as 500".to_owned())
}

pub(super) fn plan(args: &Args) -> Result<Plan, Stop> {
    let extent = match args.requests {
        Some(requests) => Extent::Requests(requests),
        None => Extent::Duration { ns: args.duration },
    };
    let queries = match &args.queries {
        Some(file) => {
            let read = curtail_load::read_queries_for(file, args.target.scheme());
            read.map_err(|error| Stop::BadInput(error.to_string()))?
        }
        None => Vec::new(),
    };
    let order = if args.shuffle { QueryOrder::Random } else { QueryOrder::InOrder };
    let plan = Plan {
        arrivals: args.arrivals,
        extent,
        connections: args.connections,
        headers: args.header.clone(),
        queries,
        order,
        timeout_ns: args.timeout,
        warmup_ns: args.warmup,
        threads: args.threads,
        spin: args.spin,
        seed: args.seed,
        protocol: args.protocol.protocol()?,
        ..Plan::new(args.target.clone(), args.rate)
    };
    plan.check().map_err(|error| Stop::BadInput(error.to_string()))?;
    Ok(plan)
}
