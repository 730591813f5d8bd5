//! The arguments of `curtail load`, and the plan that they define.

use std::path::PathBuf;

use curtail_jitter::machine::Processors;
use curtail_load::{
    Arrivals, Extent, Pace, Plan, Precision, Profile, QueryOrder, RATE_MAX, StampsBy, Target,
};

use super::out::Outputs;
use super::protocol::{ProtocolArgs, span};
use crate::agent::TokenArgs;
use crate::args::{Json, Seed};
use crate::exit::Stop;

/// Send requests at a fixed rate, no matter how slow the responses are, and report latencies
/// without coordinated omission.
///
/// Open loop: every request has an intended send time, and its latency counts from that time, so a
/// stall increases the latency of all requests that it delays. A run is *invalid* (exit code 1) if
/// its figures do not describe the requested load.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail load http://127.0.0.1:8080/search?q=rust -r 500 -d 10s
  curtail load http://127.0.0.1:8080 --rate 200 --queries targets.txt --json
  curtail load https://127.0.0.1:8443/a --http2 --cacert ca.pem --rate 2000
  curtail load grpc://127.0.0.1:50051/shop.Cart/Get --proto cart.proto -b '{\"id\": 7}' -r 500
  curtail load redis://127.0.0.1:6379 -b 'GET user:{key}' --keys 10000 --rate 5000
  curtail load udp://127.0.0.1:7000 --size 128 --rate 10000
  curtail load --calibrate
  curtail load http://10.0.0.9/ --rate 50000 --agents 10.0.0.2:7400,10.0.0.3:7400 --token-file secret")]
pub(crate) struct Args {
    /// Target: http://HOST:PORT/PATH, or https, grpc, grpcs, memcached, redis, tcp or udp
    target: Option<Target>,
    /// Measure the overhead of each way to take timestamps on this machine; takes no target
    #[arg(long, conflicts_with_all = ["target", "rate", "processors", "threads", "connections", "stamps", "spin", "agents", "out"])]
    pub(super) calibrate: bool,
    /// Requests per second: 500, a ramp 100..2000, or steps 100:10s,200:10s
    #[arg(short, long, value_name = "RATE", conflicts_with = "closed", help_heading = LOAD)]
    rate: Option<Profile>,
    /// Gaps between requests: poisson, constant, mmpp:FACTOR:SHARE:LENGTH, on-off:SHARE:LENGTH, or
    /// trace:FILE; without --rate, a trace keeps its own rate [default: poisson]
    #[arg(long, value_name = "PROCESS", conflicts_with = "closed", help_heading = LOAD)]
    arrivals: Option<String>,
    /// Replay a trace X times as fast
    #[arg(long, value_name = "X", value_parser = number, requires = "arrivals", conflicts_with = "rate", help_heading = LOAD)]
    speed: Option<f64>,
    /// Closed loop: each connection sends its next request after a response. Finds the highest
    /// throughput of a server; the latencies exclude the time for which other clients would have to
    /// wait
    #[arg(long, help_heading = LOAD)]
    closed: bool,
    /// How long to measure [default: 10s, or the length of the steps]
    #[arg(short, long, value_name = "SPAN", value_parser = span, conflicts_with = "requests", allow_hyphen_values = true, help_heading = LOAD)]
    duration: Option<u64>,
    /// Stop after N requests instead of after a duration
    #[arg(short = 'n', long, value_name = "N", help_heading = LOAD)]
    requests: Option<u64>,
    /// Time during which requests are sent but not measured
    #[arg(long, default_value = "0s", value_name = "SPAN", value_parser = span, allow_hyphen_values = true, help_heading = LOAD)]
    warmup: u64,
    /// Stop as soon as the 95 % confidence intervals of the percentiles are within this share of
    /// their values, such as 2%
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_hyphen_values = true, help_heading = LOAD)]
    until_ci: Option<f64>,
    /// Percentiles for --until-ci, each from 0.1 to 99.9 in steps of 0.1
    #[arg(long, value_name = "P", value_parser = per_mille, value_delimiter = ',', default_value = "50,99", requires = "until_ci", help_heading = LOAD)]
    percentiles: Vec<u32>,
    /// File with requests, one per line, sent in turn: targets or JSON objects (HTTP), messages,
    /// commands or text
    #[arg(long, value_name = "FILE", help_heading = LOAD)]
    queries: Option<PathBuf>,
    /// Draw the queries at random instead of in turn
    #[arg(long, requires = "queries", help_heading = LOAD)]
    shuffle: bool,
    #[command(flatten)]
    seed: Seed,
    /// Maximum number of connections [default: 64, or 1 with --stamps xdp]
    #[arg(short, long, value_name = "N", help_heading = SENDER)]
    connections: Option<usize>,
    /// Number of sending threads
    #[arg(short, long, default_value_t = 1, value_name = "N", help_heading = SENDER)]
    threads: usize,
    /// Never sleep while waiting: more exact, but each thread takes a whole processor
    #[arg(long, help_heading = SENDER)]
    spin: bool,
    /// Processors for the sending threads, one each, such as 0 or 2,4-5; other threads of this
    /// program avoid them if possible
    #[arg(long, value_name = "LIST", conflicts_with = "agents", help_heading = SENDER)]
    processors: Option<Processors>,
    /// Source of the timestamps of requests and responses
    #[arg(long, value_name = "WHO", default_value = "user", help_heading = SENDER)]
    stamps: Stamps,
    /// Send the load from these machines, which run `curtail agent`. Each sends a part of one
    /// schedule over its share of the connections, with --threads threads
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', value_parser = curtail_load::agents::parse_agent, help_heading = SENDER)]
    pub(super) agents: Vec<String>,
    #[command(flatten)]
    pub(super) token: TokenArgs,
    #[command(flatten)]
    protocol: ProtocolArgs,
    #[command(flatten)]
    pub(super) output: Json,
    #[command(flatten)]
    pub(super) outputs: Outputs,
}

const LOAD: &str = "Load";
const SENDER: &str = "Sender";

/// The source of timestamps.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Stamps {
    /// This program, so the timestamps include its own wake-up time
    User,
    /// The kernel, through SO_TIMESTAMPING
    Kernel,
    /// The network device, with its own clock (PTP), if it has one; needs CAP_NET_ADMIN
    Hardware,
    /// This program, which bypasses the network stack through AF_XDP; needs root, and supports only
    /// UDP to another machine
    Xdp,
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "write a number above 0, such as 2".to_owned())
}

pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let inside = number.filter(|percent| *percent > 0.0 && *percent < 100.0);
    inside
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "write a share above 0% and below 100%, such as 2%".to_owned())
}

fn per_mille(text: &str) -> Result<u32, String> {
    let percent = text.trim().trim_start_matches('p').parse::<f64>().ok();
    let per_mille = percent.map(|percent| percent * 10.0);
    let inside = per_mille.filter(|per_mille| (1.0..1_000.0).contains(&per_mille.round()));
    // The value is not rounded to a tenth, because 99.94 is not 99.9. The tolerance is needed
    // because most decimal fractions are inexact in binary.
    let whole = inside.filter(|per_mille| (per_mille - per_mille.round()).abs() < 1e-6);
    whole
        .map(|per_mille| per_mille.round() as u32)
        .ok_or_else(|| "write one from 0.1 to 99.9 in steps of 0.1, such as 99 or 99.9".to_owned())
}

/// When requests are sent.
fn pace(args: &Args) -> Result<Pace, Stop> {
    if args.closed {
        return Ok(Pace::Closed);
    }
    let text = args.arrivals.as_deref().unwrap_or("poisson");
    // Times without units are rejected below.
    let arrivals = Arrivals::parse(text, 1e6).map_err(|error| Stop::BadInput(error.to_string()))?;
    if arrivals.has_units() == Some(false) {
        return Err(Stop::BadInput(format!("--arrivals {text}: give LENGTH a unit, such as 50ms")));
    }
    let recorded = match &arrivals {
        Arrivals::Trace { mean_ns, .. } => *mean_ns,
        _ => None,
    };
    let profile = match (&args.rate, recorded) {
        (Some(profile), _) => profile.clone(),
        (None, Some(mean_ns)) => {
            let rate = 1e9 / mean_ns * args.speed.unwrap_or(1.0);
            if !(rate > 0.0 && rate <= RATE_MAX) {
                let why = format!(
                    "{text}: its rate is {rate:.3e} per second, above the maximum of {RATE_MAX:e}; \
                     give --rate or --speed"
                );
                return Err(Stop::BadInput(why));
            }
            Profile::Steady(rate)
        }
        (None, None) => {
            let why = match args.arrivals {
                Some(_) => "give --rate: only a trace whose times have units sets the rate itself",
                None => {
                    "give the load to send: --rate 500, --closed, or --arrivals trace:FILE; or \
                     measure only this machine with --calibrate"
                }
            };
            return Err(Stop::BadInput(why.to_owned()));
        }
    };
    if args.speed.is_some() && recorded.is_none() {
        return Err(Stop::BadInput("--speed needs a trace whose times have units".to_owned()));
    }
    Ok(Pace::Open { profile, arrivals })
}

pub(super) fn plan(args: &Args) -> Result<Plan, Stop> {
    let Some(target) = &args.target else {
        return Err(Stop::BadInput(
            "the target is missing; write http://HOST:PORT/PATH, and --rate, --closed or \
             --arrivals; or --calibrate alone"
                .to_owned(),
        ));
    };
    let pace = pace(args)?;
    let own_ns = match &pace {
        Pace::Open { profile, .. } => profile.own_ns(),
        Pace::Closed => None,
    };
    let extent = match (args.requests, args.duration.or(own_ns)) {
        (Some(requests), _) => Extent::Requests(requests),
        (None, ns) => Extent::Duration { ns: ns.unwrap_or(10_000_000_000) },
    };
    let until =
        args.until_ci.map(|relative| Precision { relative, per_mille: args.percentiles.clone() });
    let queries = match &args.queries {
        Some(file) => {
            let read = curtail_load::read_queries_for(file, target.scheme());
            read.map_err(|error| Stop::BadInput(error.to_string()))?
        }
        None => Vec::new(),
    };
    let order = if args.shuffle { QueryOrder::Random } else { QueryOrder::InOrder };
    let stamps = match args.stamps {
        Stamps::User => StampsBy::User,
        Stamps::Kernel => StampsBy::Kernel,
        Stamps::Hardware => StampsBy::Hardware,
        Stamps::Xdp => StampsBy::Xdp,
    };
    let plan = Plan {
        pace,
        extent,
        until,
        connections: args.connections.unwrap_or(if stamps == StampsBy::Xdp { 1 } else { 64 }),
        headers: args.protocol.header.clone(),
        queries,
        order,
        timeout_ns: args.protocol.timeout,
        warmup_ns: args.warmup,
        threads: args.threads,
        spin: args.spin,
        processors: args.processors.clone().unwrap_or_default(),
        stamps,
        seed: args.seed.seed,
        body_bytes_max: args.protocol.max_response,
        protocol: args.protocol.protocol(),
        ..Plan::new(target.clone(), 1.0)
    };
    plan.check().map_err(|error| Stop::BadInput(error.to_string()))?;
    if args.agents.is_empty() && args.token.given() {
        let why = "--token-file applies to agents; name them with --agents";
        return Err(Stop::BadInput(why.to_owned()));
    }
    args.protocol.trust.warn();
    Ok(plan)
}
