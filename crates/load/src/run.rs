//! Runs a plan and returns its report.

use std::future::Future;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use curtail_machine::Reading;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval_at};

use crate::engine::Clock;
use crate::engine::observe::Listener;
use crate::engine::stamp::Source;
use crate::engine::threads::{LEAD, Machine, Threads};
use crate::plan::Plan;
use crate::plan::error::LoadError;
use crate::plan::schedule::Part;
use crate::plan::target::Target;
use crate::results::conclude::conclude;
use crate::results::facts::{End, Facts};
use crate::results::outcome::Outcome;
use crate::results::report::Report;
use crate::results::watch::{Snapshot, Watch};
use crate::session::Sessions;

const SNAPSHOT_EVERY: Duration = Duration::from_millis(500);
/// Maximum number of batches that wait for the observer. The threads keep further outcomes until
/// there is room.
const BATCHES_MAX: usize = 4;

/// Sends the requests of a plan and measures the responses. Ends once every request has a response
/// or has timed out. If `cancel` resolves first, the run ends early, and the report is partial.
/// Dropping the future ends the run immediately.
///
/// Calls `progress` twice per second, and one last time at the end. [`run_observed`] also reports
/// every response, and [`run_sampled`] also reports every request.
///
/// # Errors
///
/// Returns a [`LoadError`] if the plan cannot be run, the host has no address, or no thread can be
/// started. An unreachable server is not an error: the failed attempts are counted.
pub async fn run(
    plan: &Plan,
    cancel: impl Future<Output = ()>,
    progress: impl FnMut(&Snapshot),
) -> Result<Report, LoadError> {
    drive(plan, cancel, progress, Observe::Nothing, |_, _| ControlFlow::Continue(())).await
}

/// Like [`run`], but also calls `on_response` for each complete response to a measured request,
/// whatever its status, with the time at which it was complete. The calls come in batches and in no
/// particular order. Each thread keeps at most 65,536 responses for a slow
/// callback. It drops any further responses, and [`Report::unobserved`] counts them. Once
/// `on_response` returns [`ControlFlow::Break`], requests that become due later are not sent, and
/// the run ends when all others have ended. `on_response` still receives the responses to these
/// other requests.
pub async fn run_observed(
    plan: &Plan,
    cancel: impl Future<Output = ()>,
    progress: impl FnMut(&Snapshot),
    mut on_response: impl FnMut(&Outcome, Instant) -> ControlFlow<()>,
) -> Result<Report, LoadError> {
    let on_outcome =
        |outcome: &Outcome, clock: Clock| on_response(outcome, clock.moment(outcome.done_ns));
    drive(plan, cancel, progress, Observe::Responses, on_outcome).await
}

/// Like [`run`], but also calls `on_sample` with the outcome of each measured request that was not
/// dropped, in batches and in no particular order. As with [`run_observed`], a slow callback misses
/// some outcomes, but the run continues.
pub async fn run_sampled(
    plan: &Plan,
    cancel: impl Future<Output = ()>,
    progress: impl FnMut(&Snapshot),
    mut on_sample: impl FnMut(&Outcome),
) -> Result<Report, LoadError> {
    let on_outcome = |outcome: &Outcome, _| {
        on_sample(outcome);
        ControlFlow::Continue(())
    };
    drive(plan, cancel, progress, Observe::All, on_outcome).await
}

#[derive(Clone, Copy, PartialEq)]
enum Observe {
    Nothing,
    Responses,
    All,
}

async fn drive(
    plan: &Plan,
    cancel: impl Future<Output = ()>,
    mut progress: impl FnMut(&Snapshot),
    observe: Observe,
    mut on_outcome: impl FnMut(&Outcome, Clock) -> ControlFlow<()>,
) -> Result<Report, LoadError> {
    plan.check()?;
    let mut cancel = pin!(cancel);
    let addresses = tokio::select! {
        biased;
        addresses = resolve(&plan.target) => addresses?,
        // A run can be interrupted while the host name is being resolved, because that may take
        // half a minute.
        () = &mut cancel => return Err(LoadError::Interrupted),
    };
    let heads = observe == Observe::Responses;
    let (to, outcomes) = mpsc::channel(BATCHES_MAX);
    let listener = Listener { to, failures: observe == Observe::All };
    let listener = Some(listener).filter(|_| observe != Observe::Nothing);
    let mut observing = listener.is_some();
    let sessions = Arc::new(Sessions::prepare(plan, heads)?);
    let source = Source::prepare(plan, &addresses)?;
    let of = Machine { addresses, sessions, source };
    // Set the epoch after all setup, so that setup time is not part of the schedule.
    let (part, epoch) = (Part::WHOLE, Instant::now() + LEAD);
    let mut threads = Threads::start(plan, part, epoch, &of, listener.as_ref())?;
    let machine = Reading::take(&[]);
    // The channel closes when the last thread ends.
    drop(listener);
    // This variable is rebound after `threads`, so that it is dropped first. Dropping the threads
    // joins them, and one of them may be waiting for room in the channel.
    let mut outcomes = outcomes;
    let (mut watch, mut ticks) = (Watch::new(), ticks());
    let mut end = End::default();
    loop {
        tokio::select! {
            biased;
            () = &mut cancel, if end.cut_ns.is_none() => {
                end.cut_ns = Some(threads.clock.elapsed_ns());
                threads.stop();
            }
            _ = ticks.tick() => {
                let snapshot = watch.look_at(threads.collect(), threads.clock.elapsed_ns(), plan);
                progress(&snapshot);
                if end.enough_ns.is_none() && watch.sure_enough(plan) {
                    end.enough_ns = Some(threads.clock.elapsed_ns());
                    threads.drain();
                }
            }
            batch = outcomes.recv(), if observing => match batch {
                Some(batch) => {
                    let decisions = batch.iter().map(|outcome| on_outcome(outcome, threads.clock));
                    // No short circuit: `on_outcome` is called for every outcome of the batch,
                    // whatever it returns.
                    let enough = decisions.filter(ControlFlow::is_break).count() > 0;
                    if enough && end.enough_ns.is_none() {
                        end.enough_ns = Some(threads.clock.elapsed_ns());
                        threads.drain();
                    }
                }
                None => observing = false,
            },
            () = threads.finished(), if !observing => break,
        }
    }
    let clock = threads.clock;
    let (rest, last_ns, sender) = threads.join()?;
    let machine = Reading::take(&[]).zip(machine).and_then(|(now, before)| now.since(&before));
    progress(&watch.last_look(rest, clock.elapsed_ns(), plan));
    end.last_ns = last_ns;
    let facts = Facts { sender, machine, ..Facts::of(plan, end, of.source.stamping()) };
    Ok(conclude(watch.total, &facts))
}

pub(crate) async fn resolve(target: &Target) -> Result<Vec<SocketAddr>, LoadError> {
    let failed = |source| LoadError::Resolve { host: target.host().to_owned(), source };
    let found = tokio::net::lookup_host((target.host(), target.port())).await.map_err(failed)?;
    Ok(found.collect())
}

/// Does blocking work on another thread.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

pub(crate) fn ticks() -> Interval {
    let mut ticks = interval_at((Instant::now() + SNAPSHOT_EVERY).into(), SNAPSHOT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::schedule::Extent;

    #[tokio::test]
    async fn setup_time_is_not_part_of_the_schedule() {
        // No server listens, so every request fails immediately. Rendering the requests takes much
        // longer than the time between the start of the threads and the start of the schedule.
        let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = unused.local_addr().unwrap();
        drop(unused);
        let mut plan = Plan::new(format!("http://{address}/").parse().unwrap(), 100_000.0);
        plan.extent = Extent::Requests(20);
        plan.headers = vec![("x-filler".to_owned(), "x".repeat(200))];
        plan.queries = (0..200_000).map(|i| format!("/{i}")).collect();
        let start = Instant::now();
        crate::session::requests::prepare(&plan).unwrap();
        let rendering = u64::try_from(start.elapsed().as_nanos()).unwrap();
        let report = run(&plan, std::future::pending(), |_| {}).await.unwrap();
        let lag = report.schedule_lag_ns.p50.expect("there are 20 requests");
        assert!(lag < rendering / 2, "{lag} ns of lag after {rendering} ns of rendering");
    }
}
