//! A run that an agent does for a coordinator.
//!
//! It begins at a time of the agent's own clock, which the coordinator has compared with its own by pings.
//! While it goes on, records go to the coordinator, and orders come. Whatever goes wrong with the connection
//! ends the run: nobody would read what it measures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use curtail_kernel::duration::format;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::timeout;

use super::agent::{Ending, Turn};
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

/// Why a run ended that was not at its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Over {
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("its plan cannot be run here, which it was told")]
    Refused,
    #[error("{0}")]
    Failed(String),
}

/// What is ready to be run.
struct Prepared {
    plan: Plan,
    part: Part,
    addresses: Vec<std::net::SocketAddr>,
    sessions: Arc<Sessions>,
    source: Source,
}

/// Runs what the coordinator asks for; `began` is told the target.
pub(super) async fn run(
    mut frames: Frames,
    mut out: OwnedWriteHalf,
    turn: Turn,
    mut ending: Ending,
    began: impl Fn(String),
) -> Result<(), Over> {
    let clock = Instant::now();
    let prepared = tokio::select! {
        prepared = prepare(&mut frames) => prepared,
        () = ending.wait() => return fail(&mut out, ended()).await,
    };
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(Stop::Refused(refusal)) => {
            tell(&mut out, &Told::Refused(refusal)).await?;
            return Err(Over::Refused);
        }
        Err(Stop::Frame(error)) => return Err(error.into()),
    };
    // Only short orders are left.
    frames.allow(GREETING_BYTES_MAX);
    let stamps = prepared.source.stamping();
    tell(&mut out, &Told::Ready { stamps }).await?;
    let started = tokio::select! {
        started = start(&mut frames, &mut out, clock) => started?,
        () = ending.wait() => return fail(&mut out, ended()).await,
    };
    let epoch = match started {
        Some(Ok(epoch)) => epoch,
        Some(Err(why)) => return fail(&mut out, why).await,
        None => return Ok(()),
    };
    let Prepared { plan, part, addresses, sessions, source } = prepared;
    began(plan.target.to_string());
    let machine = Machine { addresses: &addresses, sessions: &sessions, source: &source };
    let threads = match Threads::start(&plan, part, epoch, &machine, None) {
        Ok(threads) => threads,
        Err(error) => return fail(&mut out, error.to_string()).await,
    };
    measure(threads, frames, out, clock, turn, ending).await
}

/// Why there is nothing to run.
enum Stop {
    Refused(Refusal),
    Frame(FrameError),
}

impl From<LoadError> for Stop {
    fn from(error: LoadError) -> Stop {
        let why = error.to_string();
        Stop::Refused(match error {
            LoadError::Thread(_) | LoadError::Stamps(_) => Refusal::Lacking { why },
            _ => Refusal::Plan { why },
        })
    }
}

async fn prepare(frames: &mut Frames) -> Result<Prepared, Stop> {
    let refuse = |why: String| Stop::Refused(Refusal::Plan { why });
    let order = frames.next_within(PREPARATION).await.map_err(Stop::Frame)?;
    let Order::Plan(sent) = order else { return Err(refuse("it is no plan".to_owned())) };
    sent.validate().map_err(|what| refuse(format!("agents cannot have {what}")))?;
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
        refuse(format!("cannot resolve {}: no name server answers", plan.target.host()))
    })??;
    Ok(Prepared { plan, part, addresses, sessions, source })
}

/// Waits for the start, and tells the time as often as it is asked for. None if there is none.
async fn start(
    frames: &mut Frames,
    out: &mut OwnedWriteHalf,
    clock: Instant,
) -> Result<Option<Result<Instant, String>>, Over> {
    loop {
        // Others may still prepare.
        match frames.next_within(2 * PREPARATION).await? {
            Order::Ping => pong(out, clock).await?,
            Order::Start { at_ns } => {
                let now = clock.elapsed();
                let at = Duration::from_nanos(at_ns);
                return Ok(Some(match at.checked_sub(now) {
                    None => {
                        let late = format((now - at).as_nanos() as u64);
                        Err(format!("the order to start came {late} too late"))
                    }
                    Some(ahead) if ahead > START_MAX => {
                        Err("it was told to start in more than a minute".to_owned())
                    }
                    Some(_) => Ok(clock + at),
                }));
            }
            Order::Stop => return Ok(None),
            Order::Plan(_) | Order::Drain => return Err(unexpected()),
        }
    }
}

/// Tells what is measured until it is over.
async fn measure(
    mut threads: Threads,
    mut frames: Frames,
    mut out: OwnedWriteHalf,
    clock: Instant,
    turn: Turn,
    mut ending: Ending,
) -> Result<(), Over> {
    let (mut heard, mut ticks) = (Instant::now(), ticks());
    loop {
        tokio::select! {
            biased;
            order = frames.next() => {
                heard = Instant::now();
                match order? {
                    Order::Ping => pong(&mut out, clock).await?,
                    Order::Stop => threads.stop(),
                    Order::Drain => threads.drain(),
                    Order::Plan(_) | Order::Start { .. } => return Err(unexpected()),
                }
            }
            () = ending.wait() => return fail(&mut out, ended()).await,
            _ = ticks.tick() => {
                if heard.elapsed() > SILENCE {
                    return Err(FrameError::Silent(SILENCE).into());
                }
                let record = threads.collect();
                tell(&mut out, &Told::Record(Box::new(record))).await?;
            }
            () = threads.finished() => break,
        }
    }
    let (rest, last_ns) = match threads.join() {
        Ok(joined) => joined,
        Err(error) => return fail(&mut out, error.to_string()).await,
    };
    tell(&mut out, &Told::Record(Box::new(rest))).await?;
    // Who has heard of the end may ask for the next run at once.
    drop(turn);
    Ok(tell(&mut out, &Told::End { last_ns }).await?)
}

async fn pong(out: &mut OwnedWriteHalf, clock: Instant) -> Result<(), FrameError> {
    tell(out, &Told::Pong { at_ns: clock.elapsed().as_nanos() as u64 }).await
}

async fn tell(out: &mut OwnedWriteHalf, told: &Told) -> Result<(), FrameError> {
    send(out, told, TOLD_BYTES_MAX, SILENCE).await
}

/// Says why the run cannot go on, if that is still read.
async fn fail(out: &mut OwnedWriteHalf, why: String) -> Result<(), Over> {
    let _ = send(out, &Told::Failed { why: why.clone() }, TOLD_BYTES_MAX, GREETING).await;
    Err(Over::Failed(why))
}

fn ended() -> String {
    "the agent was told to end".to_owned()
}

fn unexpected() -> Over {
    Over::Failed("the coordinator says something that does not belong there".to_owned())
}
