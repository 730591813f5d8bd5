//! Measures how many queries a replica serves at once: the knee of its throughput.
//!
//! A closed loop sends the same query to the replica repeatedly, first over one connection, then
//! over as many connections as the kernel's throttler chooses. The throttler doubles the number
//! while that raises the throughput, then tries levels between the last two numbers. The round trip
//! to the replica counts as time in a slot, so a round trip that is long compared with the query
//! raises the result.

use std::cell::Cell;
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use curtail_kernel::Timestamp;
use curtail_kernel::stage::Throttler;
use curtail_load::{Extent, Outcome, Pace, Plan, PlanError, Protocol, Snapshot, Target};
use curtail_report::number::counted;
use indicatif::ProgressBar;

use crate::args::TrustArgs;
use crate::exit::{Stop, lacking};
use crate::run::{self, Termination};
use crate::say;

/// Maximum number of connections.
const MOST: u32 = 256;
/// Number of initial queries. Their median time sets the scale of the throttler's clock.
const FIRST: u64 = 3;
/// Longest query time for which the throttler's windows are designed. For longer queries, its clock
/// is slowed down.
const QUERY_NS: f64 = 20e6;
/// If the replica responds, the throttler settles on a level within this time, measured on its own
/// clock.
const LEVEL_NS: f64 = 5e9;

/// If the share of failed queries is above this, the throughput does not reveal the number of
/// slots.
const FAILED_MOST: f64 = 0.01;
/// Levels that could take longer than this are announced.
const LONG_NS: f64 = 30e9;

/// The number of slots, as measured.
pub(super) struct Found {
    pub(super) slots: u32,
    target: Target,
    /// The number of good responses per second for each number of connections.
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
    let is_http = |scheme: &str| ["http", "https"].iter().any(|it| it.eq_ignore_ascii_case(scheme));
    if !text.split_once("://").is_some_and(|(scheme, _)| is_http(scheme)) {
        return Err("a replica serves HTTP; write http://HOST:PORT/path or https://HOST:PORT/path"
            .to_owned());
    }
    text.parse().map_err(|error: PlanError| error.to_string())
}

/// Measures the replica behind a URL.
pub(super) fn find(target: &Target, trust: &TrustArgs) -> Result<Found, Stop> {
    if target.scheme().is_tls() {
        trust.warn();
    }
    run::on_all_cores(async {
        let signals = Termination::listen_at_terminal()?;
        let bar = run::spinner();
        let replica = Replica {
            target,
            trust,
            signals,
            bar: &bar,
            start: Instant::now(),
            sent: 0,
            failed: 0,
            example: None,
        };
        let found = replica.measure().await;
        bar.finish_and_clear();
        found
    })
}

struct Replica<'a> {
    target: &'a Target,
    trust: &'a TrustArgs,
    signals: Termination,
    bar: &'a ProgressBar,
    start: Instant,
    /// Number of queries sent so far.
    sent: u64,
    failed: u64,
    /// The first failure.
    example: Option<String>,
}

impl Replica<'_> {
    async fn measure(mut self) -> Result<Found, Stop> {
        let mut times = Vec::new();
        let time = |response: &Outcome, _| {
            times.push(response.uncorrected_ns());
            ControlFlow::Continue(())
        };
        self.run(1, Extent::Requests(FIRST), time).await?;
        times.sort_unstable();
        let query_ns = times[times.len() / 2] as f64;
        let slower = (query_ns / QUERY_NS).max(1.0);
        if LEVEL_NS * slower > LONG_NS {
            self.note(&long(query_ns, LEVEL_NS * slower));
        }
        let extent = Extent::Duration { ns: (LEVEL_NS * slower) as u64 };
        let (mut throttler, start) = (Throttler::new(MOST), Instant::now());
        let mut throughput = Vec::new();
        while throttler.knee().is_none() {
            let level = throttler.level();
            let mut ends = Vec::new();
            let decide = |_: &Outcome, ended: Instant| {
                let is_open = throttler.level() == level && throttler.knee().is_none();
                if !is_open {
                    return ControlFlow::Break(());
                }
                ends.push(ended);
                let since = ended.saturating_duration_since(start);
                let now = Timestamp((since.as_nanos() as f64 / slower) as u64);
                throttler.runs(now, level);
                throttler.left(now);
                ControlFlow::Continue(())
            };
            self.run(level, extent, decide).await?;
            if throttler.level() == level && throttler.knee().is_none() {
                self.failures()?;
                return Err(self.lacking(&format!(
                    "{} good responses with {level} connections within {:.0} s are too few; give --slots",
                    ends.len(),
                    LEVEL_NS * slower / 1e9
                )));
            }
            throughput.push((level, rate(&ends)));
        }
        if let Some(few) = self.failures()? {
            self.note(&few);
        }
        throughput.sort_by_key(|(level, _)| *level);
        let slots = throttler.knee().unwrap_or(1);
        Ok(Found { slots, target: self.target.clone(), throughput })
    }

    /// Sends the query repeatedly over `connections` connections, until `on_good` returns `Break`
    /// or the duration or count in `extent` is reached.
    async fn run(
        &mut self,
        connections: u32,
        extent: Extent,
        mut on_good: impl FnMut(&Outcome, Instant) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        let (bar, start, began) = (self.bar, self.start, Instant::now());
        bar.set_message(line(connections, 0, 0, start.elapsed()));
        let plan = Plan {
            pace: Pace::Closed,
            extent,
            connections: connections as usize,
            protocol: Protocol { trust: self.trust.trust(), ..Protocol::default() },
            ..Plan::new(self.target.clone(), 1.0)
        };
        let interrupted = Cell::new(false);
        let cancel = async {
            self.signals.next().await;
            interrupted.set(true);
        };
        let take = |response: &Outcome, ended| {
            if response.good() { on_good(response, ended) } else { ControlFlow::Continue(()) }
        };
        let show = |at: &Snapshot| {
            bar.set_message(line(connections, at.answered, at.errors, start.elapsed()));
        };
        let report = curtail_load::run_observed(&plan, cancel, show, take).await?;
        if interrupted.get() {
            return Err(Stop::Interrupted("while the slots were measured"));
        }
        let failed = report.errors.total();
        self.sent += report.requests;
        self.failed += failed;
        let first = report.failures.map(|failures| failures.first);
        if failed < report.requests {
            self.example = self.example.take().or(first);
            return Ok(());
        }
        Err(self.lacking(&format!(
            "no query succeeded: {} ({} in {:.1} s; each has a timeout of {:.0} s)",
            first.unwrap_or_default(),
            queries(report.requests),
            began.elapsed().as_secs_f64(),
            plan.timeout_ns as f64 / 1e9
        )))
    }

    /// Describes failed queries, if there are any. More than a few failures are an error.
    fn failures(&self) -> Result<Option<String>, Stop> {
        let Some(example) = &self.example else { return Ok(None) };
        let share = self.failed as f64 / self.sent as f64;
        let sent = queries(self.sent);
        let what = format!("{:.2} % of {sent} failed: {example}", 100.0 * share);
        if share <= FAILED_MOST {
            return Ok(Some(what));
        }
        Err(self.lacking(&format!("{what}; give a query that the replica answers, or --slots")))
    }

    /// Writes a note above the progress line.
    fn note(&self, what: &str) {
        self.bar.suspend(|| say::aside(format_args!("note: --slots-of {}: {what}", self.target)));
    }

    fn lacking(&self, why: &str) -> Stop {
        lacking!("--slots-of {}: {why}", self.target)
    }
}

/// The progress line.
fn line(connections: u32, answered: u64, failed: u64, elapsed: Duration) -> String {
    let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
    let connections = counted(connections as usize, "connection", "connections");
    format!("finding slots: {connections}, {answered} answered{failed}, {} s", elapsed.as_secs())
}

/// Announces a long measurement.
fn long(query_ns: f64, level_ns: f64) -> String {
    format!(
        "a query takes {:.1} s, so each number of connections is tried for up to {:.0} s",
        query_ns / 1e9,
        level_ns / 1e9
    )
}

fn queries(count: u64) -> String {
    counted(count as usize, "query", "queries")
}

/// Responses per second, from the first response to the last.
fn rate(ends: &[Instant]) -> f64 {
    let span = ends.last().zip(ends.first()).map(|(last, first)| last.duration_since(*first));
    span.map_or(0.0, |span| (ends.len() - 1) as f64 / span.as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_the_time_and_the_failures() {
        let shown = |connections, failed| line(connections, 7, failed, Duration::from_secs(12));
        assert_eq!(shown(1, 0), "finding slots: 1 connection, 7 answered, 12 s");
        assert_eq!(shown(4, 3), "finding slots: 4 connections, 7 answered, 3 failed, 12 s");
        let expected =
            "a query takes 3.0 s, so each number of connections is tried for up to 750 s";
        assert_eq!(long(3e9, LEVEL_NS * 150.0), expected);
    }
}
