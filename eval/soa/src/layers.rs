//! Measures the cost of the flow-control layers: CPU time per hop, bytes of metadata, and time per
//! interval.
//!
//! A hop is the work of a service in the middle for one request: the server layer reads the
//! metadata and admits the request, one sub-task runs on a resource, and the client layer calls the
//! next service and reads its response. The services are in this process and do nothing else, so
//! the same chain without the layers shows the cost of everything else. The two chains run in turn,
//! in one thread. The result of a round is the difference between two adjacent runs.
//!
//! Source: document 002 §5.2.3 and §5.2.4; the figures are those of this implementation.
//!
//! Cost: half a minute.

mod chain;
mod intervals;

use std::io::Write as _;

use curtail_flow::metadata::{self, CallMeta, WorkflowName};
use curtail_kernel::flow::{Announcement, Spent, Via};
use http::HeaderMap;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of services in the chain
    #[arg(long, default_value_t = 8)]
    hops: u32,
    /// Number of pairs of runs, with the layers and without them
    #[arg(long, default_value_t = 25)]
    rounds: usize,
    /// Requests per run
    #[arg(long, default_value_t = 5_000)]
    requests: u32,
    /// Numbers of workflows
    #[arg(long, value_delimiter = ',', default_value = "16,1024")]
    workflows: Vec<u32>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The median over the rounds, and an interval that contains the true median in 95 % of all cases,
/// by the sign test.
#[derive(Clone, Copy, Debug, Serialize)]
struct Median {
    median: f64,
    low: f64,
    high: f64,
}

impl Median {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let (count, last) = (values.len() as f64, values.len() - 1);
        let rank = ((count - 1.96 * count.sqrt()) / 2.0).max(0.0) as usize;
        Self { median: values[last / 2], low: values[rank.min(last)], high: values[last - rank] }
    }
}

/// CPU time per request and hop, in ns.
#[derive(Debug, Serialize)]
struct Hop {
    workflows: u32,
    without_ns: Median,
    with_ns: Median,
    cost_ns: Median,
}

/// Sizes of header values in bytes.
#[derive(Debug, Serialize)]
struct Sizes {
    /// Our member of the `baggage` of a request.
    member: usize,
    /// `grpc-timeout`, which gRPC always sends.
    timeout: usize,
    /// `curtail-rate` of a response.
    rate: usize,
    /// `curtail-spent` of a response.
    spent: usize,
}

#[derive(Debug, Serialize)]
struct Report {
    hops: Vec<Hop>,
    typical: Sizes,
    largest: Sizes,
    intervals: Vec<intervals::Interval>,
}

/// Returns the CPU time of this thread so far, in ns.
fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(
        args.hops > 0 && args.rounds > 0 && args.requests > 0,
        "each must be at least 1"
    );
    let workflows = || args.workflows.iter().copied();
    // The intervals come first, because reused memory would hide how much they allocate.
    let intervals = workflows().map(intervals::measure).collect();
    let hops = workflows().map(|workflows| hop(args, workflows)).collect::<Result<_, _>>()?;
    let report = Report { hops, typical: typical()?, largest: largest(), intervals };
    let mut out = std::io::stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
        return Ok(());
    }
    report.hops.iter().try_for_each(|hop| writeln!(out, "{hop:?}"))?;
    writeln!(out, "typical: {:?}\nlargest: {:?}", report.typical, report.largest)?;
    report.intervals.iter().try_for_each(|of| writeln!(out, "{of:?}"))?;
    Ok(())
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_time().build()
}

fn hop(args: &Args, workflows: u32) -> anyhow::Result<Hop> {
    let &Args { hops, rounds, requests, .. } = args;
    let runtime = runtime()?;
    let flows = chain::flows(hops, workflows)?;
    let (plain, layered) = (chain::plain(hops), chain::layered(&flows, chain::leaf()));
    let per_hop = |service: &chain::Http, workflows| {
        let begin = cpu_ns();
        runtime.block_on(chain::drive(service, requests, workflows));
        ((cpu_ns() - begin) / f64::from(requests) / f64::from(hops)).round()
    };
    let pair = || (per_hop(&plain, None), per_hop(&layered, Some(workflows)));
    pair();
    let pairs: Vec<(f64, f64)> = (0..rounds).map(|_| pair()).collect();
    let of = |value: &dyn Fn(&(f64, f64)) -> f64| Median::of(pairs.iter().map(value).collect());
    Ok(Hop {
        workflows,
        without_ns: of(&|pair| pair.0),
        with_ns: of(&|pair| pair.1),
        cost_ns: of(&|pair| pair.1 - pair.0),
    })
}

/// Returns the sizes for a request in the middle of a chain that has run for a while.
fn typical() -> anyhow::Result<Sizes> {
    let runtime = runtime()?;
    let flows = chain::flows(2, 16)?;
    let (leaf, seen) = chain::recorder();
    let layered = chain::layered(&flows, leaf);
    runtime.block_on(chain::drive(&layered, 20_000, Some(16)));
    let response = runtime.block_on(chain::one(&layered, Some(3)));
    let request = seen.lock().map(|headers| headers.clone()).unwrap_or_default();
    let length = |headers: &HeaderMap, name| headers.get(name).map_or(0, http::HeaderValue::len);
    Ok(Sizes {
        member: metadata::read_call(&request, None).map_or(0, |call| call.to_member(None).len()),
        timeout: length(&request, metadata::GRPC_TIMEOUT),
        rate: length(response.headers(), metadata::RATE),
        spent: length(response.headers(), metadata::SPENT),
    })
}

/// Returns the sizes for values with the maximum number of digits.
fn largest() -> Sizes {
    let most = Spent { service_ns: u64::MAX, work_ns: u64::MAX };
    let name = WorkflowName::new(&"w".repeat(96)).expect("96 bytes are not too long");
    let call = CallMeta {
        spent: most,
        totals: most,
        caller: u32::MAX,
        wanted: f64::INFINITY,
        ..CallMeta::of(name)
    };
    let mut via = Via::default();
    (0..20).for_each(|service| via.insert(service));
    // The highest finite rate.
    let rate = 1e12;
    Sizes {
        member: call.to_member(None).len(),
        timeout: metadata::format_timeout(std::time::Duration::MAX).len(),
        rate: metadata::format_rate(&Announcement { rate, local: rate, via }).len(),
        spent: metadata::format_spent(most).len(),
    }
}
