//! A run that an agent carries out for a coordinator.
//!
//! The run begins at a time on the agent's clock. Before the start, the coordinator uses pings to
//! compare this clock with its own. During the run the agent sends records and receives orders. Any
//! failure of the connection ends the run, because the records would be lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use curtail_jitter::machine::Reading;
use curtail_kernel::duration::format;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::frame::{FrameError, Frames, GREETING_BYTES_MAX, UPDATE_BYTES_MAX, send};
use super::message::{Done, Order, PartOfPlan, Refusal, Update};
use super::{GREETING, PREPARATION, SILENCE};
use crate::engine::stamp::Source;
use crate::engine::threads::{Machine, Threads};
use crate::plan::Plan;
use crate::plan::error::LoadError;
use crate::plan::share::Part;
use crate::run::{resolve, ticks};
use crate::session::Sessions;

/// Maximum time between the start order and the start of the run.
const START_MAX: Duration = Duration::from_secs(60);

/// The permit that a session needs to run a plan. When it is dropped, the agent can admit the next
/// coordinator.
pub(super) type Permit = OwnedMutexGuard<()>;

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("its plan cannot run here; it received the reason")]
    Refused(Refusal),
    #[error("{0}")]
    Failed(String),
}

impl From<LoadError> for RunError {
    fn from(error: LoadError) -> RunError {
        let why = error.to_string();
        RunError::Refused(match error {
            LoadError::Thread(_) | LoadError::Stamps(_) => Refusal::Lacking { why },
            _ => Refusal::Plan { why },
        })
    }
}

fn refused(why: impl Into<String>) -> RunError {
    RunError::Refused(Refusal::Plan { why: why.into() })
}

fn failed(why: impl Into<String>) -> RunError {
    RunError::Failed(why.into())
}

/// A run that is ready to start.
struct Prepared {
    plan: Plan,
    part: Part,
    addresses: Vec<SocketAddr>,
    sessions: Arc<Sessions>,
    source: Source,
}

/// A run whose threads are sending requests.
struct Running {
    threads: Threads,
    /// This value must live until the run ends.
    source: Source,
}

/// A coordinator's connection, and the clock that its pings read.
struct Session {
    frames: Frames,
    out: OwnedWriteHalf,
    clock: Instant,
}

/// Runs the coordinator's plan. Calls `began` with the target when the run begins.
pub(super) async fn run(
    frames: Frames,
    out: OwnedWriteHalf,
    permit: Permit,
    shutdown: &CancellationToken,
    began: impl Fn(String),
) -> Result<(), RunError> {
    let mut session = Session { frames, out, clock: Instant::now() };
    let done = tokio::select! {
        begun = session.begin(began) => match begun {
            Ok(Some(running)) => session.measure(running, permit, shutdown).await,
            Ok(None) => Ok(()),
            Err(why) => Err(why),
        },
        () = shutdown.cancelled() => Err(shut_down()),
    };
    let why = match &done {
        Err(RunError::Refused(refusal)) => Update::Refused(refusal.clone()),
        Err(RunError::Failed(why)) => Update::Failed { why: why.clone() },
        _ => return done,
    };
    // This fails if the coordinator has disconnected.
    let _ = send(&mut session.out, &why, UPDATE_BYTES_MAX, GREETING).await;
    done
}

impl Session {
    /// Starts the threads. Returns `None` if the coordinator ordered a stop.
    async fn begin(&mut self, began: impl Fn(String)) -> Result<Option<Running>, RunError> {
        let Prepared { plan, part, addresses, sessions, source } = self.prepare().await?;
        // All later orders are short.
        self.frames.allow(GREETING_BYTES_MAX);
        self.report(&Update::Ready { stamps: source.stamping() }).await?;
        let Some(epoch) = self.start().await? else { return Ok(None) };
        began(plan.target.to_string());
        let machine = Machine { addresses: &addresses, sessions: &sessions, source: &source };
        let threads = Threads::start(&plan, part, epoch, &machine, None);
        let threads = threads.map_err(|error| failed(error.to_string()))?;
        Ok(Some(Running { threads, source }))
    }

    async fn prepare(&mut self) -> Result<Prepared, RunError> {
        let order = self.frames.next_within(PREPARATION).await?;
        let Order::Plan(sent) = order else { return Err(refused("it is not a plan")) };
        sent.validate().map_err(|feature| refused(format!("agents do not support {feature}")))?;
        let PartOfPlan { part, plan } = *sent;
        // Rendering many requests takes a while, and the agent must be able to respond to other
        // coordinators during that time.
        let making = tokio::task::spawn_blocking(move || {
            plan.check()?;
            let sessions = Arc::new(Sessions::prepare(&plan, false)?);
            Ok::<_, LoadError>((plan, sessions))
        });
        let (plan, sessions) = match making.await {
            Ok(made) => made?,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let found = timeout(PREPARATION / 2, resolve(&plan.target)).await;
        let addresses = found.map_err(|_| {
            refused(format!("cannot resolve {}: no name server responds", plan.target.host()))
        })??;
        let preparing = tokio::task::spawn_blocking(move || {
            let source = Source::prepare(&plan, &addresses)?;
            Ok::<_, LoadError>(Prepared { plan, part, addresses, sessions, source })
        });
        match preparing.await {
            Ok(prepared) => Ok(prepared?),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Waits for the start order, and responds to pings. Returns `None` if the coordinator orders a
    /// stop.
    async fn start(&mut self) -> Result<Option<Instant>, RunError> {
        loop {
            // Other agents may still be preparing.
            match self.frames.next_within(2 * PREPARATION).await? {
                Order::Ping => self.pong().await?,
                Order::Start { at_ns } => {
                    let (now, at) = (self.clock.elapsed(), Duration::from_nanos(at_ns));
                    return match at.checked_sub(now) {
                        None => {
                            let late = format((now - at).as_nanos() as u64);
                            Err(failed(format!("the order to start arrived {late} too late")))
                        }
                        Some(ahead) if ahead > START_MAX => {
                            Err(failed("the ordered start is more than a minute away"))
                        }
                        Some(_) => Ok(Some(self.clock + at)),
                    };
                }
                Order::Stop => return Ok(None),
                Order::Plan(_) | Order::Drain => return Err(unexpected()),
            }
        }
    }

    /// Sends the measurements until the run ends or the agent shuts down.
    async fn measure(
        &mut self,
        running: Running,
        permit: Permit,
        shutdown: &CancellationToken,
    ) -> Result<(), RunError> {
        let Running { mut threads, source } = running;
        let (mut last_order, mut ticks) = (Instant::now(), ticks());
        let before = Reading::take(&[]);
        loop {
            tokio::select! {
                biased;
                order = self.frames.next() => {
                    last_order = Instant::now();
                    match order? {
                        Order::Ping => self.pong().await?,
                        Order::Stop => threads.stop(),
                        Order::Drain => threads.drain(),
                        Order::Plan(_) | Order::Start { .. } => return Err(unexpected()),
                    }
                }
                _ = ticks.tick() => {
                    if last_order.elapsed() > SILENCE {
                        return Err(FrameError::Silent(SILENCE).into());
                    }
                    self.report(&Update::Record(Box::new(threads.collect()))).await?;
                }
                () = shutdown.cancelled() => {
                    // Stop the threads first, so that the last record contains the unfinished
                    // requests.
                    threads.stop();
                    threads.finished().await;
                    break;
                }
                () = threads.finished() => break,
            }
        }
        let (rest, last_ns, sender) = threads.join().map_err(|error| failed(error.to_string()))?;
        self.report(&Update::Record(Box::new(rest))).await?;
        // Release both before reporting the end of the run, because the coordinator may then start
        // its next run immediately.
        drop((source, permit));
        if shutdown.is_cancelled() {
            return Err(shut_down());
        }
        let machine = Reading::take(&[]).zip(before).and_then(|(now, before)| now.since(&before));
        Ok(self.report(&Update::End(Done { last_ns, sender, machine })).await?)
    }

    async fn pong(&mut self) -> Result<(), FrameError> {
        self.report(&Update::Pong { at_ns: self.clock.elapsed().as_nanos() as u64 }).await
    }

    async fn report(&mut self, update: &Update) -> Result<(), FrameError> {
        send(&mut self.out, update, UPDATE_BYTES_MAX, SILENCE).await
    }
}

fn shut_down() -> RunError {
    failed("the agent was shut down")
}

fn unexpected() -> RunError {
    failed("the coordinator sent an unexpected message")
}
