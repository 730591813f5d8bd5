//! An agent, which admits coordinators and carries out one run at a time.
//!
//! A run begins at a time on the agent's clock. Before the start, the coordinator uses pings to
//! compare this clock with its own. During the run the agent sends records and receives orders. Any
//! failure of the connection ends the run, because the records would be lost.

use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use curtail_kernel::duration::format;
use curtail_machine::Reading;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::agents::message::{
    CURTAIL, Done, FrameError, Frames, GREETING_BYTES_MAX, Hello, ORDER_BYTES_MAX, Order, PROTOCOL,
    PartOfPlan, Refusal, UPDATE_BYTES_MAX, Update, send,
};
use crate::agents::{GREETING, PREPARATION, SILENCE, Token};
use crate::engine::stamp::Source;
use crate::engine::threads::{Machine, Threads};
use crate::plan::Plan;
use crate::plan::error::LoadError;
use crate::plan::schedule::Part;
use crate::run::{blocking, resolve, ticks};
use crate::session::Sessions;

/// Maximum number of connections. Further connections wait in the listen backlog.
const CONNECTIONS_MAX: usize = 16;
/// The pause after a failed accept.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// An event that an agent reports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the messages document the fields")]
#[non_exhaustive]
pub enum Event {
    /// A run began.
    Began { by: SocketAddr, target: String },
    /// A run has ended, or it could not begin. `why` is `None` if the run went as planned.
    Ended { by: SocketAddr, why: Option<String> },
    /// A connection was refused.
    TurnedAway { by: SocketAddr, why: &'static str },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Began { by, target } => write!(f, "{by}: a run against {target} has begun"),
            Event::Ended { by, why: None } => write!(f, "{by}: the run has ended"),
            Event::Ended { by, why: Some(why) } => write!(f, "{by}: the run ended early: {why}"),
            Event::TurnedAway { by, why } => write!(f, "{by} was refused: {why}"),
        }
    }
}

/// State that all connections of an agent share.
struct Shared {
    token: Option<Token>,
    busy: Arc<Mutex<()>>,
    notify: Box<dyn Fn(Event) + Send + Sync>,
    /// Cancelled when the agent shuts down.
    shutdown: CancellationToken,
}

/// Runs coordinators' plans, one at a time, until `stop` resolves. The current run also ends when
/// `stop` resolves, or earlier if its coordinator closes the connection. If a token is set, every
/// coordinator must send it.
///
/// # Panics
///
/// Panics outside of a tokio runtime with time and I/O enabled.
pub async fn serve(
    listener: TcpListener,
    token: Option<Token>,
    stop: impl Future<Output = ()>,
    notify: impl Fn(Event) + Send + Sync + 'static,
) {
    let (busy, shutdown) = (Arc::default(), CancellationToken::new());
    let shared = Arc::new(Shared { token, busy, notify: Box::new(notify), shutdown });
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some(ended) = connections.join_next() => rethrow(ended),
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, by)) => {
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move { converse(&shared, stream, by).await });
                }
                // Either no file descriptor is free, or the peer has already closed the connection.
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            },
        }
    }
    shared.shutdown.cancel();
    while let Some(ended) = connections.join_next().await {
        rethrow(ended);
    }
}

/// Propagates a panic from a connection's task.
fn rethrow(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && let Ok(cause) = error.try_into_panic()
    {
        std::panic::resume_unwind(cause);
    }
}

async fn converse(shared: &Shared, stream: TcpStream, by: SocketAddr) {
    // Without this option, the system could hold a pong back until the previous one is
    // acknowledged. If setting the option fails, the clock comparison is less exact, but the run
    // can continue.
    let _ = stream.set_nodelay(true);
    let (read, mut write) = stream.into_split();
    let mut frames = Frames::new(read);
    let admitted = tokio::select! {
        admitted = greet(shared, &mut frames, &mut write) => admitted,
        () = shared.shutdown.cancelled() => return,
    };
    let permit = match admitted {
        Ok(permit) => permit,
        Err(why) => return (shared.notify)(Event::TurnedAway { by, why }),
    };
    frames.allow(ORDER_BYTES_MAX);
    let began = |target: String| (shared.notify)(Event::Began { by, target });
    let ended = carry_out(frames, write, permit, &shared.shutdown, began).await;
    let why = match ended {
        Ok(()) => None,
        Err(RunError::Frame(FrameError::Closed)) => {
            Some("the coordinator closed the connection".to_owned())
        }
        Err(why) => Some(why.to_string()),
    };
    (shared.notify)(Event::Ended { by, why });
}

/// Admits a coordinator, or returns the reason for refusing it.
async fn greet(
    shared: &Shared,
    frames: &mut Frames,
    write: &mut OwnedWriteHalf,
) -> Result<Permit, &'static str> {
    let hello: Hello = frames
        .next_within(GREETING)
        .await
        .map_err(|_| "it is not a coordinator of curtail load")?;
    let admitted = admit(shared, &hello);
    let reply = match &admitted {
        Ok(_) => Update::Welcome,
        Err((_, refusal)) => Update::Refused(refusal.clone()),
    };
    let sent = send(write, &reply, GREETING_BYTES_MAX, GREETING).await;
    let permit = admitted.map_err(|(why, _)| why)?;
    sent.map_err(|_| "it closed the connection").map(|()| permit)
}

fn admit(shared: &Shared, hello: &Hello) -> Result<Permit, (&'static str, Refusal)> {
    if hello.protocol != PROTOCOL {
        let version = Refusal::Version { protocol: PROTOCOL, curtail: CURTAIL.to_owned() };
        return Err(("it uses another version of the protocol", version));
    }
    let given = hello.token.as_deref().unwrap_or_default();
    if shared.token.as_ref().is_some_and(|token| !token.admits(given)) {
        return Err(("its token is missing or wrong", Refusal::Token));
    }
    let permit = Arc::clone(&shared.busy).try_lock_owned();
    permit.map_err(|_| ("another run is in progress", Refusal::Busy))
}

/// Maximum time between the start order and the start of the run.
const START_MAX: Duration = Duration::from_secs(60);

/// The permit that a session needs to run a plan. When it is dropped, the agent can admit the next
/// coordinator.
type Permit = OwnedMutexGuard<()>;

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
enum RunError {
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
    machine: Machine,
}

/// A run whose threads are sending requests.
struct Running {
    threads: Threads,
    machine: Machine,
}

/// A coordinator's connection, and the clock that its pings read.
struct Session {
    frames: Frames,
    out: OwnedWriteHalf,
    clock: Instant,
}

/// Runs the coordinator's plan. Calls `began` with the target when the run begins.
async fn carry_out(
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
        let Prepared { plan, part, machine } = self.prepare().await?;
        // All later orders are short.
        self.frames.allow(GREETING_BYTES_MAX);
        self.report(&Update::Ready { stamps: machine.source.stamping() }).await?;
        let Some(epoch) = self.start().await? else { return Ok(None) };
        began(plan.target.to_string());
        let threads = Threads::start(&plan, part, epoch, &machine, None);
        let threads = threads.map_err(|error| failed(error.to_string()))?;
        Ok(Some(Running { threads, machine }))
    }

    async fn prepare(&mut self) -> Result<Prepared, RunError> {
        let order = self.frames.next_within(PREPARATION).await?;
        let Order::Plan(sent) = order else { return Err(refused("it is not a plan")) };
        sent.validate().map_err(|feature| refused(format!("agents do not support {feature}")))?;
        let PartOfPlan { part, plan } = *sent;
        // Rendering many requests takes a while, and the agent must be able to respond to other
        // coordinators during that time.
        let making = blocking(move || {
            plan.check()?;
            let sessions = Arc::new(Sessions::prepare(&plan, false)?);
            Ok::<_, LoadError>((plan, sessions))
        });
        let (plan, sessions) = making.await?;
        let found = timeout(PREPARATION / 2, resolve(&plan.target)).await;
        let addresses = found.map_err(|_| {
            refused(format!("cannot resolve {}: no name server responds", plan.target.host()))
        })??;
        let preparing = blocking(move || {
            let source = Source::prepare(&plan, &addresses)?;
            Ok::<_, LoadError>(Prepared {
                plan,
                part,
                machine: Machine { addresses, sessions, source },
            })
        });
        Ok(preparing.await?)
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
        let Running { mut threads, machine } = running;
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
        drop((machine, permit));
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
