//! The arguments of `curtail load`, and the plan that they define.

use std::path::{Path, PathBuf};

use curtail_dist::read_text;
use curtail_load::{
    Arrivals, Batch, Extent, KeyDistribution, Keys, Pace, Plan, Precision, Profile, Protocol,
    QueryOrder, RATE_MAX, ResponseEnd, StampsBy, Target,
};
use curtail_machine::Processors;

use super::out::Outputs;
use crate::agent::TokenArgs;
use crate::args::{Json, Seed, TrustArgs, number, percent, span};
use crate::exit::{Stop, bad};

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
    #[arg(long, value_name = "X", value_parser = above_zero, requires = "arrivals", conflicts_with = "rate", help_heading = LOAD)]
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

fn above_zero(text: &str) -> Result<f64, String> {
    number(text, |x| x.is_finite() && x > 0.0, "write a number above 0, such as 2")
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
    let arrivals = Arrivals::parse(text, 1e6).map_err(Stop::bad)?;
    if arrivals.has_units() == Some(false) {
        return Err(bad!("--arrivals {text}: give LENGTH a unit, such as 50ms"));
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
        return Err(bad!("--speed needs a trace whose times have units"));
    }
    Ok(Pace::Open { profile, arrivals })
}

pub(super) fn plan(args: &Args) -> Result<Plan, Stop> {
    let Some(target) = &args.target else {
        return Err(bad!(
            "the target is missing; write http://HOST:PORT/PATH, and --rate, --closed or \
             --arrivals; or --calibrate alone"
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
            read.map_err(Stop::bad)?
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
    plan.check().map_err(Stop::bad)?;
    if args.agents.is_empty() && args.token.given() {
        let why = "--token-file applies to agents; name them with --agents";
        return Err(Stop::BadInput(why.to_owned()));
    }
    args.protocol.trust.warn();
    Ok(plan)
}

#[derive(clap::Args)]
#[command(next_help_heading = "Requests and protocols")]
pub(crate) struct ProtocolArgs {
    /// Header to send, such as 'x-shard: 0' (repeatable)
    #[arg(short = 'H', long, value_name = "K: V", value_parser = curtail_load::parse_header)]
    pub(crate) header: Vec<(String, String)>,
    /// Time after which a request without a response has failed
    #[arg(long, default_value = "10s", value_name = "SPAN", value_parser = span, allow_hyphen_values = true)]
    pub(crate) timeout: u64,
    /// Method of HTTP requests that do not name one [default: GET, or POST with --body]
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    /// Body of HTTP requests, or @FILE to read it from a file; for other protocols the message,
    /// command or text to send
    #[arg(short, long, alias = "data", value_name = "TEXT|@FILE", value_parser = body, allow_hyphen_values = true)]
    body: Option<String>,
    /// Replace {key} in requests with a number below N
    #[arg(long, value_name = "N")]
    keys: Option<usize>,
    /// Distribution of the keys: uniform or zipf:S
    #[arg(long, value_name = "D", default_value = "uniform", requires = "keys")]
    key_distribution: KeyDistribution,
    /// Use HTTP/2
    #[arg(long)]
    http2: bool,
    /// Maximum concurrent requests on an HTTP/2 or gRPC connection [default: 100]
    #[arg(long, value_name = "N")]
    streams: Option<usize>,
    /// Maximum concurrent requests on a memcached, Redis or TCP connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    pipeline: usize,
    /// When a memcached, Redis or TCP connection writes its requests: nagle, WAIT or WAIT:REQUESTS;
    /// the last two write a batch when its first request has waited for WAIT, or when the batch
    /// contains REQUESTS requests [default: immediately]
    #[arg(long, value_name = "B")]
    batch: Option<Batch>,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    /// Description of gRPC messages: a .proto file, or the output of protoc --descriptor_set_out
    #[arg(long, value_name = "FILE")]
    proto: Option<PathBuf>,
    /// Length of a response on a tcp:// connection, in bytes
    #[arg(long, value_name = "N", conflicts_with = "answer_until")]
    answer_bytes: Option<u64>,
    /// Text that ends a response on a tcp:// connection [default: \n]
    #[arg(long, value_name = "TEXT", value_parser = curtail_load::unescape)]
    answer_until: Option<Bytes>,
    /// Length of a udp:// datagram, in bytes [default: 64]
    #[arg(long, value_name = "BYTES")]
    size: Option<usize>,
    /// Maximum size of a response, such as 64MiB; longer ones fail
    #[arg(long, value_name = "SIZE", value_parser = curtail_config::parse_size, default_value = "64MiB")]
    pub(crate) max_response: u64,
}

/// A type alias, because clap would take a `Vec` as a list of arguments.
type Bytes = std::vec::Vec<u8>;

/// The text itself, or the content of the file after an `@`; `@@` escapes a leading `@`.
fn body(text: &str) -> Result<String, String> {
    match text.strip_prefix('@') {
        None => Ok(text.to_owned()),
        Some(literal) if literal.starts_with('@') => Ok(literal.to_owned()),
        Some(path) => read_text(Path::new(path)).map_err(|error| error.to_string()),
    }
}

impl ProtocolArgs {
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Whether the arguments request a number of streams other than one.
    pub(crate) fn asks_for_streams(&self) -> bool {
        self.streams.is_some_and(|streams| streams != 1)
    }

    pub(crate) fn protocol(&self) -> Protocol {
        let default = Protocol::default();
        let response_end = match (&self.answer_bytes, &self.answer_until) {
            (Some(bytes), _) => ResponseEnd::Bytes(*bytes),
            (None, Some(text)) => ResponseEnd::Until(text.clone()),
            (None, None) => default.response_end,
        };
        let distribution = self.key_distribution;
        Protocol {
            http2: self.http2,
            streams: self.streams.unwrap_or(default.streams),
            pipeline: self.pipeline,
            batch: self.batch.unwrap_or_default(),
            trust: self.trust.trust(),
            schema: self.proto.clone(),
            response_end,
            datagram_bytes: self.size.unwrap_or(default.datagram_bytes),
            method: self.method.clone(),
            data: self.body.clone(),
            keys: self.keys.map(|count| Keys { count, distribution }),
        }
    }
}
