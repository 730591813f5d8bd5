//! How many queries a replica serves at once: the knee of its throughput.
//!
//! A closed loop sends one query to the replica with one connection, then with as many as the kernel's throttler asks
//! for: twice as many while that brings more throughput, then levels between the last two. A way to the replica that
//! takes long beside the query counts as time in a slot.

use std::cell::Cell;
use std::fmt;
use std::ops::ControlFlow;
use std::time::Instant;

use curtail_kernel::Timestamp;
use curtail_kernel::stage::Throttler;
use curtail_load::{Answer, Extent, Pace, Plan, PlanError, Target};
use indicatif::ProgressBar;

use crate::exit::Stop;
use crate::progress;
use crate::signals::Termination;

/// Connections at most.
const MOST: u32 = 256;
/// Queries whose median time decides how fast the throttler's time passes.
const FIRST: u64 = 3;
/// The throttler's windows are for queries up to so long. Where they take longer, its time passes more slowly.
const QUERY_NS: f64 = 20e6;
/// The throttler decides on a level within this, of its time, if queries are answered.
const LEVEL_NS: f64 = 5e9;

/// A measured number of slots.
pub(super) struct Found {
    pub(super) slots: u32,
    target: Target,
    /// Connections, and good responses per second with them.
    throughput: Vec<(u32, f64)>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slots, target, throughput } = self;
        let (levels, rates): (Vec<_>, Vec<_>) = throughput
            .iter()
            .map(|(level, rate)| (level.to_string(), format!("{rate:.0}/s")))
            .unzip();
        let or_more = if *slots == MOST { " or more" } else { "" };
        let (rates, levels) = (rates.join(", "), levels.join(", "));
        write!(
            f,
            "slots: {slots}{or_more}, found at {target}: throughput {rates} with {levels} connections"
        )
    }
}

/// Parses the URL of a replica.
pub(super) fn replica(text: &str) -> Result<Target, String> {
    let target: Target = text.parse().map_err(|error: PlanError| error.to_string())?;
    if target.scheme().is_http() {
        return Ok(target);
    }
    Err("a replica serves HTTP; write http://HOST:PORT/path".to_owned())
}

/// Measures the replica behind a URL.
pub(super) fn find(target: &Target) -> Result<Found, Stop> {
    let runtime = crate::runtime()?;
    let found = runtime.block_on(async {
        let signals = Termination::listen_at_terminal()
            .map_err(|error| Stop::Lacking(format!("no signals: {error}")))?;
        let bar = progress::spinner();
        let found = Replica { target, signals, bar: &bar }.measure().await;
        bar.finish_and_clear();
        found
    });
    // A name lookup may still be running, but its result is no longer needed.
    runtime.shutdown_background();
    found
}

struct Replica<'a> {
    target: &'a Target,
    signals: Termination,
    bar: &'a ProgressBar,
}

impl Replica<'_> {
    async fn measure(mut self) -> Result<Found, Stop> {
        let mut times = Vec::new();
        let time = |answer: &Answer| {
            times.push(answer.uncorrected_ns);
            ControlFlow::Continue(())
        };
        self.run(1, Extent::Requests(FIRST), time).await?;
        times.sort_unstable();
        let slower = (times[times.len() / 2] as f64 / QUERY_NS).max(1.0);
        let extent = Extent::Duration { ns: (LEVEL_NS * slower) as u64 };
        let (mut throttler, start) = (Throttler::new(MOST), Instant::now());
        let mut throughput = Vec::new();
        while throttler.knee().is_none() {
            let level = throttler.level();
            let mut ends = Vec::new();
            let decide = |answer: &Answer| {
                let is_open = throttler.level() == level && throttler.knee().is_none();
                if !is_open {
                    return ControlFlow::Break(());
                }
                ends.push(answer.ended);
                let since = answer.ended.saturating_duration_since(start);
                let now = Timestamp((since.as_nanos() as f64 / slower) as u64);
                throttler.runs(now, level);
                throttler.left(now);
                ControlFlow::Continue(())
            };
            self.run(level, extent, decide).await?;
            if throttler.level() == level && throttler.knee().is_none() {
                return Err(self.lacking(&format!(
                    "{} good responses with {level} connections within {:.0} s are too few; give --slots",
                    ends.len(),
                    LEVEL_NS * slower / 1e9
                )));
            }
            throughput.push((level, rate(&ends)));
        }
        throughput.sort_by_key(|(level, _)| *level);
        let slots = throttler.knee().unwrap_or(1);
        Ok(Found { slots, target: self.target.clone(), throughput })
    }

    /// Sends the query again and again, over so many connections, until `on_good` has had enough good responses.
    async fn run(
        &mut self,
        connections: u32,
        extent: Extent,
        mut on_good: impl FnMut(&Answer) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        let plural = if connections == 1 { "" } else { "s" };
        self.bar.set_message(format!("finding slots: {connections} connection{plural}"));
        let plan = Plan {
            pace: Pace::Closed,
            extent,
            connections: connections as usize,
            ..Plan::new(self.target.clone(), 1.0)
        };
        let (interrupted, any_good) = (Cell::new(false), Cell::new(false));
        let cancel = async {
            self.signals.next().await;
            interrupted.set(true);
        };
        let take = |answer: &Answer| {
            any_good.set(any_good.get() || answer.good);
            if answer.good { on_good(answer) } else { ControlFlow::Continue(()) }
        };
        let report = curtail_load::run_observed(&plan, cancel, |_| {}, take).await?;
        if interrupted.get() {
            return Err(Stop::Interrupted("while the slots were measured"));
        }
        if any_good.get() {
            return Ok(());
        }
        let first = report.failures.map_or(String::new(), |failures| failures.first);
        Err(self.lacking(&format!("no query was answered well: {first}")))
    }

    fn lacking(&self, why: &str) -> Stop {
        Stop::Lacking(format!("--slots-of {}: {why}", self.target))
    }
}

/// Responses per second between the first and the last one.
fn rate(ends: &[Instant]) -> f64 {
    let span = ends.last().zip(ends.first()).map(|(last, first)| last.duration_since(*first));
    span.map_or(0.0, |span| (ends.len() - 1) as f64 / span.as_secs_f64().max(1e-9))
}
