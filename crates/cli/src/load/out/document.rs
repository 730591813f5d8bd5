//! `result.json`: the report, and what was asked of whom.

use std::time::Duration;

use curtail_load::{Extent, Pace, Plan, QueryOrder, Report, StampsBy};
use serde::Serialize;

use super::protocol::Spoken;
use super::utc;

/// The version of the document. Readers of one refuse a later one.
pub(crate) const FORMAT: u32 = 1;

/// A run.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    format: u32,
    /// The version that measured it.
    pub(super) curtail: &'static str,
    /// In seconds since 1970, and for people.
    started_utc_s: f64,
    pub(super) started_utc: String,
    pub(super) host: Host,
    pub(super) plan: Asked,
    /// Samples that are missing in the table of samples, for it was not written fast enough.
    pub(super) samples_lost: u64,
    pub(super) report: &'a Report,
}

/// The machine that sent the requests.
#[derive(Serialize)]
pub(super) struct Host {
    name: String,
    /// The operating system and its kernel.
    pub(super) system: String,
    pub(super) kernel: String,
    pub(super) architecture: String,
    /// Processors that this program may use.
    pub(super) processors: Option<usize>,
}

/// What was asked, as on the command line. Of headers only the names: some values are secret.
#[derive(Serialize)]
pub(super) struct Asked {
    pub(super) target: String,
    pub(super) closed_loop: bool,
    pub(super) rate: Option<String>,
    pub(super) arrivals: Option<String>,
    pub(super) duration_s: Option<f64>,
    pub(super) requests: Option<u64>,
    pub(super) warmup_s: f64,
    pub(super) until_ci: Option<f64>,
    /// That `until_ci` is about.
    percentiles: Option<Vec<f64>>,
    pub(super) connections: usize,
    pub(super) backlog: usize,
    pub(super) threads: usize,
    pub(super) spin: bool,
    /// Of the threads, where they were named: `0,2-4`.
    pub(super) processors: Option<String>,
    pub(super) stamps: StampsBy,
    pub(super) timeout_s: f64,
    pub(super) headers: Vec<String>,
    /// How many different ones; 0 where it is the target's own.
    pub(super) queries: usize,
    pub(super) shuffle: bool,
    pub(super) seed: u64,
    pub(super) protocol: Spoken,
}

impl<'a> Document<'a> {
    pub(super) fn new(plan: &Plan, report: &'a Report, started: Duration) -> Self {
        Self {
            format: FORMAT,
            curtail: env!("CARGO_PKG_VERSION"),
            started_utc_s: started.as_millis() as f64 / 1e3,
            started_utc: utc::text(started),
            host: Host::this(),
            plan: Asked::of(plan),
            samples_lost: report.unobserved,
            report,
        }
    }
}

impl Host {
    fn this() -> Self {
        let names = rustix::system::uname();
        let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
        Self {
            name: text(names.nodename()),
            system: text(names.sysname()),
            kernel: text(names.release()),
            architecture: text(names.machine()),
            processors: std::thread::available_parallelism().ok().map(usize::from),
        }
    }
}

impl Asked {
    fn of(plan: &Plan) -> Self {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (rate, arrivals) = match &plan.pace {
            Pace::Open { profile, arrivals } => {
                (Some(profile.to_string()), Some(arrivals.to_string()))
            }
            Pace::Closed => (None, None),
        };
        let (duration_s, requests) = match plan.extent {
            Extent::Duration { ns } => (Some(seconds(ns)), None),
            Extent::Requests(requests) => (None, Some(requests)),
        };
        Self {
            target: plan.target.to_string(),
            closed_loop: rate.is_none(),
            rate,
            arrivals,
            duration_s,
            requests,
            warmup_s: seconds(plan.warmup_ns),
            until_ci: plan.until.as_ref().map(|until| until.relative),
            percentiles: plan.until.as_ref().map(|until| {
                until.per_mille.iter().map(|per_mille| f64::from(*per_mille) / 10.0).collect()
            }),
            connections: plan.connections,
            backlog: plan.backlog,
            threads: plan.threads,
            spin: plan.spin,
            processors: (!plan.processors.numbers().is_empty())
                .then(|| plan.processors.to_string()),
            stamps: plan.stamps,
            timeout_s: seconds(plan.timeout_ns),
            headers: plan.headers.iter().map(|(name, _)| name.clone()).collect(),
            queries: plan.queries.len(),
            shuffle: plan.order == QueryOrder::Random,
            seed: plan.seed,
            protocol: Spoken::of(plan),
        }
    }
}
