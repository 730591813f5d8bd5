//! A run that an agent does for a coordinator.
//!
//! It begins at a time of the agent's own clock, which the coordinator has compared with its own by pings.
//! While it goes on, records go to the coordinator, and orders come. Whatever goes wrong with the connection
//! ends the run: nobody would read what it measures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use curtail_kernel::duration::format;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::frame::{FrameError, Frames, GREETING_BYTES_MAX, TOLD_BYTES_MAX, send};
use super::message::{Order, PartOfPlan, Refusal, Told};
use super::{GREETING, PREPARATION, SILENCE};
use crate::engine::stamp::Source;
use crate::engine::threads::{Machine, Threads};
use crate::plan::Plan;
use crate::plan::error::LoadError;
use crate::plan::share::Part;
use crate::run::{resolve, ticks};
use crate::session::Sessions;

/// A start may be so far away.
const START_MAX: Duration = Duration::from_secs(60);

/// The right to run. Dropping it lets the next one in.
pub(super) type Turn = OwnedMutexGuard<()>;

/// Why a run ended that was not at its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Over {
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("its plan cannot be run here, and it knows why")]
    Refused(Refusal),
    #[error("{0}")]
    Failed(String),
}

impl From<LoadError> for Over {
    fn from(error: LoadError) -> Over {
        let why = error.to_string();
        Over::Refused(match error {
            LoadError::Thread(_) | LoadError::Stamps(_) => Refusal::Lacking { why },
            _ => Refusal::Plan { why },
        })
    }
}

fn refused(why: impl Into<String>) -> Over {
    Over::Refused(Refusal::Plan { why: why.into() })
}

fn failed(why: impl Into<String>) -> Over {
    Over::Failed(why.into())
}

/// What is ready to be run.
struct Prepared {
    plan: Plan,
    part: Part,
    addresses: Vec<SocketAddr>,
    sessions: Arc<Sessions>,
    source: Source,
}

/// A coordinator, and the clock that it is told.
struct Session {
    frames: Frames,
    out: OwnedWriteHalf,
    clock: Instant,
}

/// Runs what the coordinator asks for; `began` is told the target.
pub(super) async fn run(
    frames: Frames,
    out: OwnedWriteHalf,
    turn: Turn,
    ending: &CancellationToken,
    began: impl Fn(String),
) -> Result<(), Over> {
    let mut session = Session { frames, out, clock: Instant::now() };
    let done = tokio::select! {
        done = session.run(turn, began) => done,
        () = ending.cancelled() => Err(failed("the agent was told to end")),
    };
    let why = match &done {
        Err(Over::Refused(refusal)) => Told::Refused(refusal.clone()),
        Err(Over::Failed(why)) => Told::Failed { why: why.clone() },
        _ => return done,
    };
    // It may no longer be read.
    let _ = send(&mut session.out, &why, TOLD_BYTES_MAX, GREETING).await;
    done
}

impl Session {
    async fn run(&mut self, turn: Turn, began: impl Fn(String)) -> Result<(), Over> {
        let Prepared { plan, part, addresses, sessions, source } = self.prepare().await?;
        // Only short orders are left.
        self.frames.allow(GREETING_BYTES_MAX);
        self.tell(&Told::Ready { stamps: source.stamping() }).await?;
        let Some(epoch) = self.start().await? else { return Ok(()) };
        began(plan.target.to_string());
        let machine = Machine { addresses: &addresses, sessions: &sessions, source: &source };
        let threads = Threads::start(&plan, part, epoch, &machine, None)
            .map_err(|error| failed(error.to_string()))?;
        self.measure(threads, turn).await
    }

    async fn prepare(&mut self) -> Result<Prepared, Over> {
        let order = self.frames.next_within(PREPARATION).await?;
        let Order::Plan(sent) = order else { return Err(refused("it is no plan")) };
        sent.validate().map_err(|what| refused(format!("agents cannot have {what}")))?;
        let PartOfPlan { part, plan } = *sent;
        // Of many requests it takes a while, and the agent has others to answer.
        let making = tokio::task::spawn_blocking(move || {
            plan.check()?;
            let sessions = Arc::new(Sessions::prepare(&plan, false)?);
            let source = Source::prepare(&plan, &[])?;
            Ok::<_, LoadError>((plan, sessions, source))
        });
        let (plan, sessions, source) = match making.await {
            Ok(made) => made?,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let found = timeout(PREPARATION / 2, resolve(&plan.target)).await;
        let addresses = found.map_err(|_| {
            refused(format!("cannot resolve {}: no name server answers", plan.target.host()))
        })??;
        Ok(Prepared { plan, part, addresses, sessions, source })
    }

    /// Waits for the start, and tells the time as often as it is asked for. None if there is none.
    async fn start(&mut self) -> Result<Option<Instant>, Over> {
        loop {
            // Others may still prepare.
            match self.frames.next_within(2 * PREPARATION).await? {
                Order::Ping => self.pong().await?,
                Order::Start { at_ns } => {
                    let (now, at) = (self.clock.elapsed(), Duration::from_nanos(at_ns));
                    return match at.checked_sub(now) {
                        None => {
                            let late = format((now - at).as_nanos() as u64);
                            Err(failed(format!("the order to start came {late} too late")))
                        }
                        Some(ahead) if ahead > START_MAX => {
                            Err(failed("it was told to start in more than a minute"))
                        }
                        Some(_) => Ok(Some(self.clock + at)),
                    };
                }
                Order::Stop => return Ok(None),
                Order::Plan(_) | Order::Drain => return Err(unexpected()),
            }
        }
    }

    /// Tells what is measured until it is over.
    async fn measure(&mut self, mut threads: Threads, turn: Turn) -> Result<(), Over> {
        let (mut heard, mut ticks) = (Instant::now(), ticks());
        loop {
            tokio::select! {
                biased;
                order = self.frames.next() => {
                    heard = Instant::now();
                    match order? {
                        Order::Ping => self.pong().await?,
                        Order::Stop => threads.stop(),
                        Order::Drain => threads.drain(),
                        Order::Plan(_) | Order::Start { .. } => return Err(unexpected()),
                    }
                }
                _ = ticks.tick() => {
                    if heard.elapsed() > SILENCE {
                        return Err(FrameError::Silent(SILENCE).into());
                    }
                    self.tell(&Told::Record(Box::new(threads.collect()))).await?;
                }
                () = threads.finished() => break,
            }
        }
        let (rest, last_ns) = threads.join().map_err(|error| failed(error.to_string()))?;
        self.tell(&Told::Record(Box::new(rest))).await?;
        // Who has heard of the end may ask for the next run at once.
        drop(turn);
        Ok(self.tell(&Told::End { last_ns }).await?)
    }

    async fn pong(&mut self) -> Result<(), FrameError> {
        self.tell(&Told::Pong { at_ns: self.clock.elapsed().as_nanos() as u64 }).await
    }

    async fn tell(&mut self, told: &Told) -> Result<(), FrameError> {
        send(&mut self.out, told, TOLD_BYTES_MAX, SILENCE).await
    }
}

fn unexpected() -> Over {
    failed("the coordinator says something that does not belong there")
}
