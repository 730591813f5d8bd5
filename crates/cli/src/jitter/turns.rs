//! Turns of executions: which query is asked when, and when there were enough.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use curtail_dist::seed;
use curtail_load::jitter::{Executions, Repetitions, Stop as Enough};
use curtail_load::{Answer, Errors, Extent, Invalid, LoadError, Pace, Plan};
use indicatif::ProgressBar;
use rand_core::Rng as _;

use super::args::{self, Work};
use super::measure::Execution;
use crate::exit::Stop;
use crate::signals::Termination;

/// Executed before each turn and not measured: connections are opened, caches filled.
const WARMUP_NS: u64 = 200_000_000;
/// So many times as many executions as are needed are the most, failed ones included.
const FAILURES_FACTOR: u64 = 2;
/// So many turns may by chance go by without an execution.
const FRUITLESS_MAX: u32 = 10;
/// Whether P has converged is asked again when there are so many times as many executions.
const ASK_AGAIN: f64 = 1.2;

/// How a turn ended.
pub(super) enum Turned {
    Well,
    Interrupted,
    /// Another one would be no better, and why.
    InVain(String),
}

/// The turns of executions so far.
pub(super) struct Turns<'a> {
    work: &'a Work,
    bar: &'a ProgressBar,
    pub(super) executions: Executions,
    pub(super) each: Vec<Execution>,
    pub(super) errors: Errors,
    /// How often each query was answered well, and how often badly.
    answered: Vec<u64>,
    refused: Vec<u64>,
    /// Nothing will come of going on.
    hopeless: bool,
    /// The queries in the order in which this turn asks them first.
    order: Vec<usize>,
    /// Good answers of this turn whose connection was opened for them.
    opened: u64,
    /// Turns without a failure and without an execution, one after the other.
    fruitless: u32,
    pub(super) enough: Enough,
    /// Turns at a rate, those of them in which it was not reached, and why it was not in the first.
    rated: u32,
    slow: u32,
    slow_because: Option<String>,
    /// How many executions there are when it is asked whether they are enough.
    ask_at: usize,
    /// How long the turns before this one took, and when this one began.
    executing: Duration,
    since: Instant,
}

impl<'a> Turns<'a> {
    pub(super) fn new(work: &'a Work, bar: &'a ProgressBar) -> Result<Turns<'a>, Stop> {
        let executions = Executions::new(&work.classes);
        Ok(Turns {
            work,
            bar,
            executions: executions.map_err(|error| Stop::BadInput(error.to_string()))?,
            each: Vec::new(),
            errors: Errors::default(),
            answered: vec![0; work.classes.len()],
            refused: vec![0; work.classes.len()],
            hopeless: false,
            order: Vec::new(),
            opened: 0,
            fruitless: 0,
            enough: Enough::NotYet,
            rated: 0,
            slow: 0,
            slow_because: None,
            ask_at: 0,
            executing: Duration::ZERO,
            since: Instant::now(),
        })
    }

    /// Executes for a while.
    pub(super) async fn turn(
        &mut self,
        seed: u64,
        signals: &mut Termination,
    ) -> Result<Turned, Stop> {
        self.line_up(seed);
        let queries = &self.work.plan.queries;
        let plan = Plan {
            extent: Extent::Duration { ns: self.work.turn_ns },
            warmup_ns: WARMUP_NS,
            seed,
            queries: self.order.iter().map(|query| queries[*query].clone()).collect(),
            ..self.work.plan.clone()
        };
        self.bar.set_message("executing");
        let before = self.executions.len();
        self.opened = 0;
        self.since = Instant::now();
        let report =
            curtail_load::run_until(&plan, signals.next(), |_| {}, |answer| self.take(answer));
        let report = report.await.map_err(|error| match error {
            LoadError::Thread(_) | LoadError::Stamps(_) => Stop::Lacking(error.to_string()),
            LoadError::Interrupted => Stop::Interrupted("while the host was being resolved"),
            LoadError::Plan(_) | LoadError::Resolve { .. } => Stop::BadInput(error.to_string()),
        })?;
        self.executing += self.since.elapsed();
        self.errors.merge(&report.errors);
        if report.partial {
            return Ok(Turned::Interrupted);
        }
        self.look_at_rate(&report.invalid_because);
        let first = report.failures.map(|failures| failures.first);
        if self.executions.len() == before {
            return Ok(self.in_vain(first));
        }
        self.fruitless = 0;
        Ok(self.look_at_failures(first))
    }

    /// A queue has times of its own.
    fn look_at_rate(&mut self, because: &[Invalid]) {
        if self.work.plan.pace == Pace::Closed {
            return;
        }
        self.rated += 1;
        if let Some(reason) = because.iter().find(|reason| is_of_the_rate(reason)) {
            self.slow += 1;
            self.slow_because.get_or_insert_with(|| reason.to_string());
        }
    }

    /// Why the rate was not reached. In few of many turns that is chance.
    pub(super) fn rate_missed(&mut self) -> Option<String> {
        self.slow_because.take().filter(|_| 2 * self.slow > self.rated)
    }

    /// Whoever was asked least often is asked first, and else it is chance: a turn may be shorter
    /// than a round.
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

    /// What comes of a turn without an execution, whose first failure was this one.
    fn in_vain(&mut self, first: Option<String>) -> Turned {
        let target = &self.work.plan.target;
        if let Some(first) = first {
            return Turned::InVain(match self.executions.len() {
                0 => format!("no query was answered well by {target}: {first}"),
                before => format!("after {before} executions {target} answered no more: {first}"),
            });
        }
        self.fruitless += 1;
        // With few queries per second, or next to no time, it is chance whether any comes to a turn.
        let chance = self.opened == 0 || (self.work.plan.pace != Pace::Closed && !self.hopeless);
        if chance && self.fruitless < FRUITLESS_MAX {
            return Turned::Well;
        }
        Turned::InVain(match self.opened {
            0 => format!("no answer came from {target}; use a longer --turn"),
            _ => "no query was answered over a connection that was open already, so all of them took the \
                  time to open one; let the server keep its connections open, and answer only what it is \
                  asked"
                .to_owned(),
        })
    }

    /// Nobody learns P of a query that fails, however often it is executed.
    fn look_at_failures(&self, first: Option<String>) -> Turned {
        let queries = self.work.classes.len() as u64;
        let executed = self.executions.len() as u64 + self.errors.total();
        let never = |at: &usize| {
            let tried = self.refused[*at] >= u64::from(args::LEAST)
                || executed >= u64::from(args::LEAST) * queries;
            self.answered[*at] == 0 && tried
        };
        if let Some(never) = (0..self.answered.len()).find(never) {
            let first = first.map_or(String::new(), |first| format!(" ({first})"));
            return Turned::InVain(format!(
                "query {} of {queries}, `{}`, was never answered well{first}; take it out of the file, or \
                 mend the server",
                never + 1,
                self.work.plan.queries[never]
            ));
        }
        if self.enough == Enough::NotYet && executed >= FAILURES_FACTOR * self.work.most {
            let failed = self.errors.total();
            return Turned::InVain(format!("{failed} of {executed} executions failed"));
        }
        Turned::Well
    }

    fn take(&mut self, answer: &Answer) -> ControlFlow<()> {
        self.opened += u64::from(answer.good && answer.opened);
        self.look_for_hope(answer);
        // To open a connection is no part of a service time.
        if !answer.good || answer.opened || self.enough != Enough::NotYet {
            return self.go_on();
        }
        let (query, service_ns) = (self.order[answer.query], answer.uncorrected_ns);
        self.answered[query] += 1;
        if self.executions.push(query, service_ns).is_err() {
            // There is no room for more.
            self.enough = Enough::AtMost;
            return ControlFlow::Break(());
        }
        self.each.push(Execution { query, service_ns, ended: answer.ended });
        let done = self.executions.len() as u64;
        self.bar.set_length(self.work.most.max(done));
        self.bar.set_position(done);
        if self.executions.len() >= self.ask_at {
            self.ask();
        }
        self.go_on()
    }

    /// A turn is long, and a server need not answer badly thousands of times before somebody looks.
    fn look_for_hope(&mut self, answer: &Answer) {
        let query = self.order[answer.query];
        if !answer.good {
            self.refused[query] += 1;
            self.hopeless |=
                self.answered[query] == 0 && self.refused[query] >= u64::from(args::LEAST);
        }
        let tries = u64::from(args::LEAST) * self.work.classes.len() as u64;
        self.hopeless |= self.executions.is_empty() && self.opened >= tries;
    }

    fn go_on(&self) -> ControlFlow<()> {
        match self.enough {
            Enough::NotYet if !self.hopeless => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    fn ask(&mut self) {
        let repetitions: &Repetitions = &self.work.repetitions;
        let executing = self.executing + self.since.elapsed();
        if executing >= Duration::from_nanos(self.work.at_least_ns) {
            self.enough = repetitions.stop(&self.executions);
        }
        let (done, queries) = (self.executions.len(), self.work.classes.len());
        let most = self.work.most as usize;
        self.ask_at = if done < most {
            ((done as f64 * ASK_AGAIN) as usize).max(done + queries.min(1_000)).min(most)
        } else {
            // Some queries are a round behind where executions have failed.
            done + (queries / 4).clamp(1, 1_000)
        };
    }
}

/// The leaf was too slow for the rate, rather than that it failed.
fn is_of_the_rate(reason: &Invalid) -> bool {
    match reason {
        Invalid::FellBehind { .. } | Invalid::Dropped { .. } => true,
        Invalid::FellShort { answered, requests, errors } => {
            let late = requests.saturating_sub(*answered).saturating_sub(errors.total());
            2 * (late + errors.timeout) > requests - answered
        }
        _ => false,
    }
}
