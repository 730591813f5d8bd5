//! A run, from the plan to the report.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use curtail_http1::ResponseHead;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval_at};

use crate::dispatch::Dispatcher;
use crate::error::LoadError;
use crate::pacer::Pacer;
use crate::plan::{Extent, Plan};
use crate::record::Record;
use crate::report::{Facts, Report, conclude, percentile};
use crate::requests;
use crate::target::Target;
use crate::worker::{Outcome, Shared, work};

/// From the end of the set-up to the start of the schedule: the thread and the tasks come up
/// meanwhile.
const LEAD: Duration = Duration::from_millis(5);
/// From one snapshot to the next.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(500);
/// Most outcomes that wait to be collected. Beyond it connections wait too, and the schedule lag
/// shows it.
const OUTCOMES_MAX: usize = 1024;

/// What is known while a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Since the start, in nanoseconds.
    pub elapsed_ns: u64,
    /// The measurement has not begun.
    pub warming_up: bool,
    /// Requests sent so far, warm-up included.
    pub sent: u64,
    /// Good answers so far, warm-up included.
    pub answered: u64,
    /// Requests that have failed so far, warm-up included, and measured ones that were dropped.
    pub errors: u64,
    /// The 99th percentile of the measured latencies so far, in nanoseconds, if there are enough.
    pub p99_ns: Option<u64>,
}

/// A whole answer to a measured request, whatever its status.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The request's place in the schedule, warm-up included. Runs of one plan ask the same at the
    /// same place.
    pub index: u64,
    /// Which of the plan's queries, counted from 0.
    pub query: usize,
    /// The status code, 200 to 599.
    pub status: u16,
    /// The head, with its headers.
    pub head: ResponseHead,
    /// The length of the body, in bytes.
    pub body_bytes: u64,
    /// From the request's intended time to the end of the answer, in nanoseconds.
    pub latency_ns: u64,
    /// From when a connection took the request up, in nanoseconds.
    pub uncorrected_ns: u64,
    /// The intended time, in nanoseconds since the start.
    pub intended_ns: u64,
}

/// Sends requests as the plan says and measures. Ends once each has its answer or its time-out, or
/// when `cancel` resolves: the report is then partial. Dropping the future ends everything at once.
///
/// `progress` is called twice per second, `on_answer` for each whole answer to a measured request.
/// Both run between answers: what takes them long delays the requests that need a connection, and
/// shows as schedule lag.
///
/// Precision: requests are taken up within about 100 µs of their times on a machine with a processor
/// to spare. A runtime with more than one thread keeps it while answers are being read.
///
/// # Errors
///
/// [`LoadError`] if the plan cannot be run, the host has no address, or no thread can be started. A
/// server that cannot be reached is no error: the attempts are counted.
///
/// # Panics
///
/// Outside of a tokio runtime with time and I/O enabled.
pub async fn run(
    plan: &Plan,
    cancel: impl Future<Output = ()>,
    progress: impl FnMut(&Snapshot),
    on_answer: impl FnMut(&Answer),
) -> Result<Report, LoadError> {
    plan.check()?;
    let schedule = plan.schedule()?;
    tokio::pin!(cancel);
    let addresses = tokio::select! {
        biased;
        addresses = resolve(&plan.target) => addresses?,
        // Resolving may take half a minute, and nothing has been measured.
        () = &mut cancel => return Err(LoadError::Interrupted),
    };
    let (dispatcher, mailboxes) = Dispatcher::new(plan.connections, plan.backlog);
    let dispatcher = Arc::new(dispatcher);
    let shared = Arc::new(Shared {
        dispatcher: Arc::clone(&dispatcher),
        requests: requests::render(plan)?,
        addresses,
        epoch: OnceLock::new(),
        timeout: Duration::from_nanos(plan.timeout_ns),
    });
    let (sender, outcomes) = mpsc::channel(OUTCOMES_MAX);
    // Dropping the set at the end aborts the tasks, which wait for requests that will not come.
    let mut workers = JoinSet::new();
    for (id, mailbox) in mailboxes.into_iter().enumerate() {
        workers.spawn(work(id, Arc::clone(&shared), mailbox, sender.clone()));
    }
    // The set-up takes its time, which must be no part of the schedule's.
    let epoch = *shared.epoch.get_or_init(|| Instant::now() + LEAD);
    let (pacer, finish) =
        Pacer::start(schedule, epoch, Arc::clone(&dispatcher)).map_err(LoadError::Thread)?;

    let mut collector = Collector {
        plan,
        epoch,
        dispatcher: &dispatcher,
        record: Record::new(),
        ended: 0,
        answered: 0,
        progress,
        on_answer,
    };
    let end = collector.collect(&mut cancel, outcomes, finish).await;
    // Before the last tally, so that nothing is added to it.
    drop(pacer);
    Ok(collector.report(end))
}

async fn resolve(target: &Target) -> Result<Vec<SocketAddr>, LoadError> {
    let failed = |source| LoadError::Resolve { host: target.host().to_owned(), source };
    let found = tokio::net::lookup_host((target.host(), target.port())).await.map_err(failed)?;
    Ok(found.collect())
}

/// How the collecting ended.
#[derive(Debug, Clone, Copy)]
enum End {
    /// All requests have ended; the intended time of the last, in nanoseconds.
    Finished(u64),
    /// It was cut short, this long after the start of the schedule, in nanoseconds.
    Cut(u64),
}

/// The side of a run that takes in outcomes.
struct Collector<'a, P, A> {
    plan: &'a Plan,
    epoch: Instant,
    dispatcher: &'a Dispatcher,
    record: Record,
    /// Outcomes so far, and of those, good answers; warm-up included.
    ended: u64,
    answered: u64,
    progress: P,
    on_answer: A,
}

impl<P: FnMut(&Snapshot), A: FnMut(&Answer)> Collector<'_, P, A> {
    async fn collect(
        &mut self,
        cancel: impl Future<Output = ()>,
        mut outcomes: mpsc::Receiver<Outcome>,
        mut finish: oneshot::Receiver<u64>,
    ) -> End {
        let mut cancel = pin!(cancel);
        let mut ticks = ticks(self.epoch);
        let mut last_ns = None;
        loop {
            if let Some(last_ns) = last_ns
                && self.ended == self.dispatcher.tally().accepted
            {
                return End::Finished(last_ns);
            }
            tokio::select! {
                // Outcomes come last: they may come without a pause.
                biased;
                () = &mut cancel => return End::Cut(self.elapsed_ns()),
                _ = ticks.tick() => {
                    let snapshot = self.snapshot();
                    (self.progress)(&snapshot);
                }
                last = &mut finish, if last_ns.is_none() => {
                    last_ns = Some(last.expect("the pacer is stopped only after this loop"));
                }
                Some(outcome) = outcomes.recv() => self.take(outcome),
            }
        }
    }

    fn take(&mut self, outcome: Outcome) {
        self.ended += 1;
        self.answered += u64::from(self.record.add(&outcome));
        let (slot, latency_ns) = (outcome.slot, outcome.latency_ns());
        if let Ok(whole) = outcome.result
            && !slot.warmup
        {
            (self.on_answer)(&Answer {
                index: slot.index,
                query: slot.query,
                status: whole.head.status(),
                head: whole.head,
                body_bytes: whole.body_bytes,
                latency_ns,
                uncorrected_ns: outcome.uncorrected_ns,
                intended_ns: slot.at_ns,
            });
        }
    }

    fn snapshot(&self) -> Snapshot {
        let tally = self.dispatcher.tally();
        let elapsed_ns = self.elapsed_ns();
        Snapshot {
            elapsed_ns,
            warming_up: elapsed_ns < self.plan.warmup_ns,
            sent: tally.accepted - tally.waiting,
            answered: self.answered,
            errors: self.ended - self.answered + tally.dropped,
            p99_ns: percentile(&self.record.latency, 990),
        }
    }

    /// Since the start of the schedule.
    fn elapsed_ns(&self) -> u64 {
        let elapsed = Instant::now().saturating_duration_since(self.epoch);
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    }

    fn report(mut self, end: End) -> Report {
        let tally = self.dispatcher.tally();
        self.record.add_dropped(tally.dropped);
        let start_ns = self.plan.warmup_ns;
        let gap_ns = (1e9 / self.plan.rate) as u64;
        let planned_ns = |last_ns: u64| match self.plan.extent {
            Extent::Duration { ns } => start_ns.saturating_add(ns),
            Extent::Requests(_) => last_ns.saturating_add(gap_ns),
        };
        let (end_ns, cut_ns) = match end {
            End::Finished(last_ns) => (planned_ns(last_ns), None),
            End::Cut(at_ns) => (at_ns, Some(at_ns)),
        };
        let facts = Facts {
            rate: self.plan.rate,
            connections: self.plan.connections,
            backlog: self.plan.backlog,
            waited: tally.waited,
            start_ns,
            end_ns,
            cut_ns,
        };
        conclude(self.record, &facts)
    }
}

fn ticks(epoch: Instant) -> Interval {
    let mut ticks = interval_at((epoch + SNAPSHOT_EVERY).into(), SNAPSHOT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_set_up_is_no_part_of_the_schedule() {
        // Nobody listens, so that every request ends at once. To render that many takes much
        // longer than the lead.
        let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = unused.local_addr().unwrap();
        drop(unused);
        let mut plan = Plan::new(format!("http://{address}/").parse().unwrap(), 100_000.0);
        plan.extent = Extent::Requests(20);
        plan.headers = vec![("x-filler".to_owned(), "x".repeat(200))];
        plan.queries = (0..200_000).map(|i| format!("/{i}")).collect();
        let start = Instant::now();
        requests::render(&plan).unwrap();
        let rendering = u64::try_from(start.elapsed().as_nanos()).unwrap();
        let report = run(&plan, std::future::pending(), |_| {}, |_| {}).await.unwrap();
        let lag = report.schedule_lag_ns.p50.expect("there are 20 requests");
        assert!(lag < rendering / 2, "{lag} ns of lag after {rendering} ns of rendering");
    }
}
