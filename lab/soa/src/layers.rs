//! Measures the cost of the flow-control layers: CPU time per hop, bytes of metadata, and time per
//! interval.
//!
//! A hop is the work of a service in the middle for one request: the server layer reads the
//! metadata and admits the request, one sub-task runs on a resource, and the client layer calls the
//! next service and reads its response. The services are in this process and do nothing else, so
//! the same chain without the layers shows the cost of everything else. The two chains take turns in
//! one thread. The result of a round is the difference between its two turns.
//!
//! Source: document 002 §5.2.3 and §5.2.4; the figures are those of this implementation.
//!
//! Cost: half a minute.

mod chain;
mod intervals;

use curtail_flow::metadata::{self, CallMeta, WorkflowName};
use curtail_kernel::flow::{Announcement, Spent, Via};
use curtail_machine::{Rounds, Stolen};
use curtail_stats::{Ratio, ratio};
use http::HeaderMap;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// The number of services in the chain.
const HOPS: u32 = 8;
/// The number of pairs of runs, with the layers and without them.
const ROUNDS: usize = 25;
/// The number of requests per run.
const REQUESTS: u32 = 5_000;
/// The numbers of workflows.
const WORKFLOWS: [u32; 2] = [16, 1024];

/// A median and its 95 % interval.
#[derive(Clone, Copy, Debug, Serialize)]
struct Median {
    median: f64,
    low: f64,
    high: f64,
}

impl Median {
    fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let Ratio { value: median, low, high } = ratio(values);
        Self { median, low, high }
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
pub(crate) struct Report {
    hops: Vec<Hop>,
    typical: Sizes,
    largest: Sizes,
    intervals: [intervals::Interval; 2],
}

/// Returns the CPU time of this thread so far, in ns.
fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

pub(crate) fn run() -> anyhow::Result<Report> {
    Ok(Report {
        hops: WORKFLOWS.into_iter().map(hop).collect::<Result<_, _>>()?,
        typical: typical()?,
        largest: largest(),
        intervals: WORKFLOWS.map(intervals::measure),
    })
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_time().build()
}

fn hop(workflows: u32) -> anyhow::Result<Hop> {
    let runtime = runtime()?;
    let flows = chain::flows(HOPS, workflows)?;
    let sides =
        [(chain::plain(HOPS), None), (chain::layered(&flows, chain::leaf()), Some(workflows))];
    let per_hop = |side: usize| {
        let (service, workflows) = &sides[side];
        let begin = cpu_ns();
        runtime.block_on(chain::drive(service, REQUESTS, *workflows));
        ((cpu_ns() - begin) / f64::from(REQUESTS) / f64::from(HOPS)).round()
    };
    let _warm_up = [0, 1].map(per_hop);
    let mut rounds = Rounds::new(sides.len(), ROUNDS);
    while let Some(round) = rounds.begin() {
        let stolen = Stolen::start();
        let turns = round.turns(|side| anyhow::Ok(per_hop(side)))?;
        rounds.end(turns, stolen.share());
    }
    let rounds = rounds.finish();
    let of = |value: fn(&Vec<f64>) -> f64| Median::of(rounds.iter().map(value));
    Ok(Hop {
        workflows,
        without_ns: of(|turns| turns[0]),
        with_ns: of(|turns| turns[1]),
        cost_ns: of(|turns| turns[1] - turns[0]),
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
