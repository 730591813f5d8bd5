//! Executes queries in turns, alternating with idle loops that measure the machine's floor. Determines
//! the order of the queries, and when to stop.
//!
//! The loops do not run during the executions, because they would take processors away from the
//! leaf.

use std::cell::Cell;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use curtail_dist::seed;
use curtail_jitter::{Executions, Repetitions, Stop as Enough};
use curtail_load::{Errors, Extent, Outcome, Pace, Plan, Snapshot};
use curtail_machine::{Gaps, LocalLeaf, Processors, Sampler, SamplerReport, observe};
use curtail_report::number::or_none;
use indicatif::ProgressBar;
use rand_core::Rng as _;
use serde::Serialize;
use tokio::sync::Notify;

use super::args;
use super::args::Work;
use super::reach::Reach;
use crate::exit::{Stop, Typed, lacking};
use crate::load::ms;
use crate::run::Termination;

/// The sampling interval for the counters of a local leaf.
const SAMPLE_EVERY: Duration = Duration::from_millis(2);

/// The measurements.
pub(super) struct Measured {
    pub(super) executions: Executions,
    /// The individual executions, in order.
    pub(super) each: Vec<Execution>,
    pub(super) floor: Gaps,
    /// The kernel's counters for the leaf, or the reason why they were not sampled.
    pub(super) leaf: Result<(LocalLeaf, SamplerReport), String>,
    pub(super) errors: Errors,
    /// Whether the requested load was reached, if there is a rate.
    pub(super) reach: Reach,
    pub(super) enough: Enough,
    /// A signal interrupted the measurement.
    pub(super) interrupted: bool,
    /// The reason for an early end, if there was no signal.
    pub(super) ended: Option<Typed<Ended>>,
}

pub(super) async fn measure(
    work: &Work,
    bar: &ProgressBar,
    signals: &mut Termination,
) -> Result<Measured, Stop> {
    let leaf = local_leaf(&work.plan).await;
    let watched = leaf.and_then(|leaf| {
        let sampler = Sampler::start(&leaf, SAMPLE_EVERY).map_err(|error| error.to_string())?;
        Ok((leaf, sampler))
    });
    let mut turns = Turns::new(work, bar);
    let mut floor = Gaps::none();
    let mut turned = Turned::Well;
    let mut seed = work.plan.seed;
    while turns.enough == Enough::NotYet && matches!(turned, Turned::Well | Turned::Early) {
        let start = Instant::now();
        turned = turns.turn(seed, signals).await?;
        seed = seed.wrapping_add(1);
        if matches!(turned, Turned::Well) {
            bar.set_message("running an idle loop");
            let span = start.elapsed().mul_f64(work.floor);
            if idle(&work.processors, span, &mut floor, signals).await? {
                turned = Turned::Interrupted;
            }
        }
    }
    let interrupted = matches!(turned, Turned::Interrupted);
    let ended = match turned {
        Turned::InVain(why) if turns.each.is_empty() => return Err(Stop::Lacking(why.text)),
        // Keeps what has been measured up to this point.
        Turned::InVain(why) => Some(why),
        Turned::Well | Turned::Early | Turned::Interrupted => None,
    };
    Ok(Measured {
        executions: turns.executions,
        each: turns.each,
        floor,
        leaf: watched.map(|(leaf, sampler)| (leaf, sampler.finish())),
        errors: turns.errors,
        reach: turns.reach,
        enough: turns.enough,
        interrupted,
        ended,
    })
}

/// Finds the process behind the target, if it is on this machine.
async fn local_leaf(plan: &Plan) -> Result<LocalLeaf, String> {
    let (host, port) = (plan.target.host(), plan.target.port());
    let found = tokio::net::lookup_host((host, port)).await;
    let addresses: Vec<SocketAddr> = found.map_err(|error| error.to_string())?.collect();
    let mut why = format!("{host} has no address");
    for address in addresses {
        match LocalLeaf::find(address) {
            Ok(leaf) => return Ok(leaf),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

/// Runs idle loops. Returns true if a signal interrupted the loops.
async fn idle(
    processors: &Processors,
    span: Duration,
    floor: &mut Gaps,
    signals: &mut Termination,
) -> Result<bool, Stop> {
    let processors = processors.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let mut loops = tokio::task::spawn_blocking(move || observe(&processors, span, &stopped));
    let (seen, interrupted) = tokio::select! {
        seen = &mut loops => (seen, false),
        () = signals.next() => {
            stop.store(true, Ordering::Relaxed);
            (loops.await, true)
        }
    };
    let lacking = |why: String| lacking!("cannot run a loop on every processor: {why}");
    let seen = seen.map_err(|error| lacking(error.to_string()))?;
    floor.add(&seen.map_err(|error| lacking(error.to_string()))?);
    Ok(interrupted)
}

/// The maximum number of executions, including failed ones, as a multiple of the required number.
const FAILURES_FACTOR: u64 = 2;
/// Up to this number of consecutive turns may, by chance, have no execution.
const FRUITLESS_MAX: u32 = 10;
/// Up to this number of consecutive turns may end early because of bad responses, because a server
/// may be down for a moment.
const BROKEN_MAX: u32 = 3;
/// The pause after such a turn; at most the length of a turn.
const PAUSE: Duration = Duration::from_secs(1);
/// If a turn has fewer responses than this, it is possible by chance that none of them counts.
const USELESS_LEAST: u64 = 100;
/// If no response has arrived after this time and this many failures, the run stops.
const SILENCE_NS: u64 = 2_000_000_000;
const FAILURES_LEAST: u64 = 5;
/// Convergence of P is checked again after the number of executions has grown by this factor.
const CHECK_AGAIN: f64 = 1.2;

/// Why a measurement ended early.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Ended {
    NoGoodAnswers {
        executions: usize,
    },
    NoAnswers,
    /// No connection served more than one query.
    ConnectionsClose,
    /// Queries are numbered from 1, like lines.
    QueryFails {
        query: usize,
    },
    TooManyFail {
        failed: u64,
        executed: u64,
    },
}

/// One execution.
#[derive(Debug, Clone, Copy)]
pub(super) struct Execution {
    pub(super) query: usize,
    pub(super) service_ns: u64,
    pub(super) ended: Instant,
}

/// The outcome of a turn.
pub(super) enum Turned {
    Well,
    /// The turn ended early because of bad responses; the next turn may be better.
    Early,
    Interrupted,
    /// More turns would not help, for the given reason.
    InVain(Typed<Ended>),
}

/// The turns of executions so far.
pub(super) struct Turns<'a> {
    work: &'a Work,
    bar: &'a ProgressBar,
    pub(super) executions: Executions,
    pub(super) each: Vec<Execution>,
    pub(super) errors: Errors,
    pub(super) reach: Reach,
    /// Good responses to each query.
    answered: Vec<u64>,
    /// Bad responses to each query since its last good one.
    refused: Vec<u32>,
    /// The queries in the order of this turn.
    order: Vec<usize>,
    /// Number of requests in this turn that had to open a connection and got a good response.
    opened: u64,
    /// Responses in this turn before its first execution.
    useless: u64,
    /// Executions before this turn.
    before: usize,
    /// Consecutive turns without a failure and without an execution.
    fruitless: u32,
    /// Whether this turn ended early because further requests would have failed.
    broken: bool,
    /// The number of such turns in a row.
    broken_turns: u32,
    pub(super) enough: Enough,
    /// The number of executions at the next convergence check.
    check_at: usize,
    /// The duration of the earlier turns, and the start of this one.
    executing: Duration,
    since: Instant,
}

impl<'a> Turns<'a> {
    pub(super) fn new(work: &'a Work, bar: &'a ProgressBar) -> Turns<'a> {
        Turns {
            work,
            bar,
            executions: Executions::new(&work.classes),
            each: Vec::new(),
            errors: Errors::default(),
            reach: Reach::default(),
            answered: vec![0; work.classes.len()],
            refused: vec![0; work.classes.len()],
            order: Vec::new(),
            opened: 0,
            useless: 0,
            before: 0,
            fruitless: 0,
            broken: false,
            broken_turns: 0,
            enough: Enough::NotYet,
            check_at: 0,
            executing: Duration::ZERO,
            since: Instant::now(),
        }
    }

    /// Runs one turn of executions.
    pub(super) async fn turn(
        &mut self,
        seed: u64,
        signals: &mut Termination,
    ) -> Result<Turned, Stop> {
        self.line_up(seed);
        let queries = &self.work.plan.queries;
        let plan = Plan {
            extent: Extent::Duration { ns: self.work.turn_ns },
            seed,
            queries: self.order.iter().map(|query| queries[*query].clone()).collect(),
            ..self.work.plan.clone()
        };
        self.bar.set_message("executing");
        self.before = self.executions.len();
        (self.opened, self.useless, self.broken) = (0, 0, false);
        self.since = Instant::now();
        let (give_up, silent) = (Notify::new(), Cell::new(self.executions.is_empty()));
        let look = |so_far: &Snapshot| {
            let [p50, p99] = [so_far.p50_ns, so_far.p99_ns].map(|ns| or_none(ns, ms));
            self.bar.set_message(format!("executing   p50 {p50}   p99 {p99}"));
            let failing = so_far.elapsed_ns >= SILENCE_NS && so_far.errors >= FAILURES_LEAST;
            if silent.get() && failing && so_far.answered == 0 {
                give_up.notify_one();
            }
        };
        let take = |response: &Outcome, ended| {
            silent.set(false);
            self.take(response, ended)
        };
        let interrupted = Cell::new(false);
        let end = async {
            tokio::select! {
                () = signals.next() => interrupted.set(true),
                () = give_up.notified() => {}
            }
        };
        let report = curtail_load::run_observed(&plan, end, look, take);
        let report = report.await?;
        self.executing += self.since.elapsed();
        self.errors.merge(&report.errors);
        if interrupted.get() {
            return Ok(Turned::Interrupted);
        }
        self.reach.add(&report);
        let first = report.failures.map(|failures| failures.first);
        let turned = if self.executions.len() == self.before {
            self.in_vain(first)
        } else {
            self.fruitless = 0;
            self.check_failures(first)
        };
        self.broken_turns = if self.broken { self.broken_turns + 1 } else { 0 };
        match turned {
            Turned::InVain(_) if self.broken && self.broken_turns < BROKEN_MAX => {
                Ok(self.pause(signals).await)
            }
            turned => Ok(turned),
        }
    }

    /// Waits before the next turn, because the server may recover in the meantime.
    async fn pause(&self, signals: &mut Termination) -> Turned {
        self.bar.set_message("waiting for good responses");
        let pause = PAUSE.min(Duration::from_nanos(self.work.turn_ns));
        tokio::select! {
            () = tokio::time::sleep(pause) => Turned::Early,
            () = signals.next() => Turned::Interrupted,
        }
    }

    /// Puts the queries with the fewest executions first, because a turn may be shorter than a
    /// round. Queries with equally many executions are in random order.
    fn line_up(&mut self, seed: u64) {
        let mut rng = seed::rng(seed::stream(seed, &[b"jitter", b"order"]));
        let mut order: Vec<_> = self
            .answered
            .iter()
            .enumerate()
            .map(|(at, times)| (*times, rng.next_u64(), at))
            .collect();
        order.sort_unstable();
        self.order = order.into_iter().map(|(_, _, query)| query).collect();
    }

    /// Decides what to do after a turn without an execution; `first` is its first failure.
    fn in_vain(&mut self, first: Option<String>) -> Turned {
        let target = &self.work.plan.target;
        if let Some(first) = first {
            let executions = self.executions.len();
            let text = match executions {
                0 => format!("no query to {target} succeeded: {first}"),
                n => {
                    format!("no query to {target} succeeded any more after {n} executions: {first}")
                }
            };
            return Turned::InVain(Typed::new(Ended::NoGoodAnswers { executions }, text));
        }
        self.fruitless += 1;
        // If there are few queries per second, or if turns are very short, a turn may by chance
        // have no execution.
        let few = self.work.plan.pace != Pace::Closed && !self.is_useless();
        let chance = self.opened == 0 || few;
        if chance && self.fruitless < FRUITLESS_MAX {
            return Turned::Well;
        }
        Turned::InVain(match self.opened {
            0 => {
                let text = format!("no response came from {target}; use a longer --turn");
                Typed::new(Ended::NoAnswers, text)
            }
            _ => Typed::new(
                Ended::ConnectionsClose,
                "no query was answered over an open connection, so every time includes opening \
                 one; let the server keep its connections open, and send nothing after a response",
            ),
        })
    }

    /// Looks for queries that always fail, because their P cannot be measured.
    fn check_failures(&self, first: Option<String>) -> Turned {
        let queries = self.work.classes.len() as u64;
        let executed = self.executions.len() as u64 + self.errors.total();
        let often = executed >= u64::from(args::LEAST) * queries;
        let never =
            |query: &usize| self.is_refused(*query) || (often && self.answered[*query] == 0);
        if let Some(never) = (0..self.answered.len()).find(never) {
            let first = first.map_or(String::new(), |first| format!(" ({first})"));
            let query = never + 1;
            let text = format!(
                "query {query} of {queries}, `{}`, never succeeded{first}; remove it from the \
                 file, or fix the server",
                self.work.plan.queries[never]
            );
            return Turned::InVain(Typed::new(Ended::QueryFails { query }, text));
        }
        if self.enough == Enough::NotYet && executed >= FAILURES_FACTOR * self.work.most {
            let failed = self.errors.total();
            let text = format!("{failed} of {executed} executions failed");
            return Turned::InVain(Typed::new(Ended::TooManyFail { failed, executed }, text));
        }
        Turned::Well
    }

    fn take(&mut self, response: &Outcome, ended: Instant) -> ControlFlow<()> {
        let (query, good) = (self.order[response.slot.query], response.good());
        self.opened += u64::from(good && response.opened);
        self.refused[query] = if good { 0 } else { self.refused[query].saturating_add(1) };
        // A service time does not include the time to open a connection.
        if !good || response.opened || self.enough != Enough::NotYet {
            self.useless += u64::from(self.executions.len() == self.before);
            // End the turn, because further requests would also fail.
            self.broken |= self.is_refused(query) || self.is_useless();
            return if self.broken { ControlFlow::Break(()) } else { self.go_on() };
        }
        let service_ns = response.uncorrected_ns();
        self.answered[query] += 1;
        if !self.executions.push(query, service_ns) {
            // The maximum number of executions.
            self.enough = Enough::AtMost;
            return ControlFlow::Break(());
        }
        self.each.push(Execution { query, service_ns, ended });
        let done = self.executions.len() as u64;
        self.bar.set_length(self.work.most.max(done));
        self.bar.set_position(done);
        if self.executions.len() >= self.check_at {
            self.check();
        }
        self.go_on()
    }

    /// Whether a query had many bad responses and never a good one.
    fn is_refused(&self, query: usize) -> bool {
        self.answered[query] == 0 && self.refused[query] >= args::LEAST
    }

    /// Whether this turn had enough responses for an execution, but none counted. The first
    /// response on each connection never counts.
    fn is_useless(&self) -> bool {
        let least = u64::from(args::LEAST) * self.work.classes.len() as u64;
        let first = self.work.under_way as u64;
        self.executions.len() == self.before && self.useless >= least.max(USELESS_LEAST) + first
    }

    fn go_on(&self) -> ControlFlow<()> {
        match self.enough {
            Enough::NotYet => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    fn check(&mut self) {
        let repetitions: &Repetitions = &self.work.repetitions;
        let executing = self.executing + self.since.elapsed();
        if executing >= Duration::from_nanos(self.work.at_least_ns) {
            self.enough = repetitions.stop(&self.executions);
        }
        let (done, queries) = (self.executions.len(), self.work.classes.len());
        let most = self.work.most as usize;
        self.check_at = if done < most {
            ((done as f64 * CHECK_AGAIN) as usize).max(done + queries.min(1_000)).min(most)
        } else {
            // After failures, some queries have one execution less than the others.
            done + (queries / 4).clamp(1, 1_000)
        };
    }
}
