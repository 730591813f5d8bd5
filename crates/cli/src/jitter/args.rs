//! The arguments of `curtail jitter`.

use std::path::PathBuf;

use curtail_jitter::Repetitions;
use curtail_load::{
    Extent, Pace, Plan, PlanError, Protocol, QueryOrder, Scheme, Target, query_class,
};
use curtail_machine::Processors;

use crate::args::{Json, Seed, number, percent, span, span_from};
use crate::exit::{Stop, bad, lacking};
use crate::files;
use crate::load::ProtocolArgs;

/// Minimum number of executions of each query before P can converge.
pub(super) const LEAST: u32 = 20;

/// Measure how much of a service's variability comes from the query, and how much from the machine.
///
/// Executes every query many times in random order. P is the shortest execution time of a query; J,
/// the IQ-jitter, is the remainder of an execution's time. If a statistical test finds two modes in
/// J, a fitted mixture separates hiccups from noise. The estimates have confidence intervals.
/// Between turns of executions, an idle loop runs on every processor, because whatever interrupts
/// the loop would also interrupt a leaf.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail jitter http://127.0.0.1:9001/search --queries targets.txt
  curtail jitter memcached://127.0.0.1:11211 --queries keys.txt --repeat 500 --rate 2000 --json
  curtail advise --samples out/jitter/service.txt --shards 5 --replicas 2 --utilization 0.35")]
pub(crate) struct Args {
    /// Target: http://HOST:PORT, or another protocol of `curtail load`
    target: Target,
    /// File with one query per line: a request target, or JSON such as {"path": "/a", "class":
    /// "term"}
    #[arg(long, value_name = "FILE", help_heading = LOAD)]
    queries: PathBuf,
    /// Execute each query K times [default: until P has converged, at least 20 times]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..), help_heading = LOAD)]
    repeat: Option<u32>,
    /// P has converged when its error is below this share of its mean
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "1%", conflicts_with = "repeat", help_heading = LOAD)]
    tolerance: f64,
    /// Maximum number of executions of a query, even if P has not converged
    #[arg(long, value_name = "K", default_value_t = 1000, conflicts_with = "repeat", value_parser = clap::value_parser!(u32).range(20..), help_heading = LOAD)]
    repeat_at_most: u32,
    /// Execute queries for at least this long, even if P converges sooner, because hiccups are rare
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "10s", conflicts_with = "repeat", help_heading = LOAD)]
    at_least: u64,
    /// Queries per second, with Poisson arrivals [default: one at a time, even over HTTP/2 and
    /// gRPC, so that none waits]
    #[arg(short, long, value_name = "N", value_parser = rate, help_heading = LOAD)]
    rate: Option<f64>,
    /// Length of the warm-up before each turn: queries are sent but not measured, to open
    /// connections and fill caches
    #[arg(long, default_value = "200ms", value_name = "SPAN", value_parser = span, help_heading = LOAD)]
    warmup: u64,
    #[command(flatten)]
    pub(super) seed: Seed,
    /// Maximum number of connections, with --rate
    #[arg(short, long, default_value_t = 64, value_name = "N", requires = "rate", help_heading = SENDER)]
    connections: usize,
    /// Processor for the sending thread. Choose one that the leaf does not use; other threads of
    /// this program avoid it
    #[arg(long, value_name = "N", help_heading = SENDER)]
    processors: Option<Processors>,
    /// Time for the idle loops, as a share of the time for executions
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "50%", help_heading = MACHINE)]
    floor: f64,
    /// Length of a turn of executions; the idle loops run between turns
    #[arg(long, value_name = "SPAN", value_parser = some_time, default_value = "10s", help_heading = MACHINE)]
    turn: u64,
    #[command(flatten)]
    protocol: ProtocolArgs,
    /// Directory for the samples and the report; overwrites those of an earlier run
    #[arg(long, value_name = "DIR", default_value = "out/jitter", help_heading = "Output")]
    pub(super) out: PathBuf,
    #[command(flatten)]
    pub(super) output: Json,
}

const LOAD: &str = "Load";
const SENDER: &str = "Sender";
const MACHINE: &str = "Machine";

fn some_time(text: &str) -> Result<u64, String> {
    span_from(1, "write a time above zero, such as 10s", text)
}

fn rate(text: &str) -> Result<f64, String> {
    let most = curtail_load::RATE_MAX;
    let write =
        format!("write a number of queries per second above 0 and at most {most}, such as 50");
    number(text, |rate| rate > 0.0 && rate <= most, write)
}

/// The resolved arguments.
pub(super) struct Work {
    /// The plan of one turn.
    pub(super) plan: Plan,
    /// Maximum number of outstanding queries.
    pub(super) under_way: usize,
    /// The class of each query.
    pub(super) classes: Vec<String>,
    pub(super) repetitions: Repetitions,
    /// The maximum number of executions, even if P has not converged.
    pub(super) most: u64,
    /// The minimum time for executions, in nanoseconds.
    pub(super) at_least_ns: u64,
    /// Time for measuring the floor, as a share of the time for executions.
    pub(super) floor: f64,
    /// Where the idle loops run.
    pub(super) processors: Processors,
    /// One turn of executions, in nanoseconds.
    pub(super) turn_ns: u64,
}

/// The protocol. Without a rate, there is one outstanding query at a time, even if a connection has
/// room for more.
fn protocol(args: &Args, scheme: Scheme) -> Result<Protocol, Stop> {
    let protocol = args.protocol.protocol();
    if args.rate.is_some() || !has_streams(&protocol, scheme) {
        return Ok(protocol);
    }
    if args.protocol.asks_for_streams() {
        return Err(bad!(
            "--streams {}: without --rate, queries are executed one at a time; leave it out, or \
             give a --rate",
            protocol.streams
        ));
    }
    Ok(Protocol { streams: 1, ..protocol })
}

/// True if requests share a connection.
fn has_streams(protocol: &Protocol, scheme: Scheme) -> bool {
    protocol.http2 || scheme.is_grpc()
}

pub(super) fn work(args: &Args) -> Result<Work, Stop> {
    let scheme = args.target.scheme();
    if scheme == Scheme::Udp {
        return Err(bad!("udp:// has no queries that can be repeated; use another protocol"));
    }
    if args.protocol.has_keys() {
        return Err(bad!(
            "--keys: each key makes another query; write one line per query into --queries"
        ));
    }
    let queries = curtail_load::read_queries_for(&args.queries, scheme).map_err(Stop::bad)?;
    let class = |query: &String| query_class(scheme, query).unwrap_or_default();
    let classes: Vec<String> = queries.iter().map(class).collect();
    let repetitions = match args.repeat {
        // Execute each query exactly this number of times, whether P has converged or not.
        Some(times) => Repetitions { least: times, most: times, tolerance: 0.0 },
        None => Repetitions { least: LEAST, most: args.repeat_at_most, tolerance: args.tolerance },
    };
    let times = args.repeat.unwrap_or(args.repeat_at_most);
    let plan = Plan {
        pace: args.rate.map_or(Pace::Closed, Pace::poisson),
        extent: Extent::Duration { ns: args.turn },
        connections: if args.rate.is_some() { args.connections } else { 1 },
        headers: args.protocol.header.clone(),
        order: QueryOrder::Rounds,
        // A sleeping thread notices a response late. It would sleep only during slow queries, so
        // these would seem even slower.
        spin: std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1),
        processors: args.processors.clone().unwrap_or_default(),
        timeout_ns: args.protocol.timeout,
        warmup_ns: args.warmup,
        seed: args.seed.seed,
        body_bytes_max: args.protocol.max_response,
        protocol: protocol(args, scheme)?,
        queries,
        ..Plan::new(args.target.clone(), 1.0)
    };
    if let Err(error) = plan.check() {
        return Err(Stop::BadInput(match error {
            PlanError::FewerThanOne(_) => {
                "--rate: fewer than one query is due in a turn; use a longer --turn".to_owned()
            }
            error => error.to_string(),
        }));
    }
    files::room_for(&plan)?;
    args.protocol.trust.warn();
    let processors = Processors::allowed()
        .map_err(|error| lacking!("cannot list the processors of the system: {error}"))?;
    Ok(Work {
        at_least_ns: if args.repeat.is_some() { 0 } else { args.at_least },
        under_way: match has_streams(&plan.protocol, scheme) {
            true => plan.connections * plan.protocol.streams,
            false => plan.connections,
        },
        most: u64::from(times) * plan.queries.len() as u64,
        plan,
        classes,
        repetitions,
        floor: args.floor,
        processors,
        turn_ns: args.turn,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// The resolved arguments of a command line, or its error.
    fn parsed(target: &str, line: &str) -> Result<Work, String> {
        let folder = tempfile::tempdir().unwrap();
        let queries = folder.path().join("queries.txt");
        let query = if target.starts_with("grpc") { "{\"base64\": \"AA==\"}" } else { "/a" };
        std::fs::write(&queries, query).unwrap();
        let words = ["jitter", target, "--queries", queries.to_str().unwrap()];
        let line = Line::try_parse_from(words.into_iter().chain(line.split_whitespace()));
        work(&line.unwrap().args).map_err(|stop| match stop {
            Stop::BadInput(why) => why,
            other => panic!("{other:?}"),
        })
    }

    const GRPC: &str = "grpc://127.0.0.1:1/a.B/C";
    const HTTP: &str = "http://127.0.0.1:1/";

    #[test]
    fn without_a_rate_one_query_is_outstanding_on_any_protocol() {
        for (target, line) in
            [(GRPC, ""), (GRPC, "--streams 1"), (HTTP, "--http2"), (HTTP, "--http2 --streams 1")]
        {
            let work = parsed(target, line).unwrap();
            assert_eq!((work.plan.pace, work.under_way), (Pace::Closed, 1), "{target} {line}");
        }
        for (target, line) in [(GRPC, "--streams 100"), (HTTP, "--http2 --streams 0")] {
            let why = parsed(target, line).err().expect("an error");
            assert!(why.contains("one at a time") && why.contains("--rate"), "{why}");
        }
        assert!(parsed(HTTP, "").is_ok(), "HTTP/1 has none");
        for (line, streams) in [("--rate 50", 100), ("--rate 50 --streams 8", 8)] {
            assert_eq!(parsed(GRPC, line).unwrap().plan.protocol.streams, streams, "{line}");
        }
        for (line, ns) in [("", 200_000_000), ("--warmup 0s", 0), ("--warmup 2s", 2_000_000_000)] {
            assert_eq!(parsed(HTTP, line).unwrap().plan.warmup_ns, ns, "{line}");
        }
    }
}
