//! A coordinator's connection to one agent.

use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::frame::{FrameError, Frames, GREETING_BYTES_MAX, ORDER_BYTES_MAX, TOLD_BYTES_MAX, send};
use super::message::{CURTAIL, Hello, Order, PROTOCOL, PartOfPlan, Refusal, Told};
use super::{AgentsError, GREETING, PREPARATION, SILENCE, Token};
use crate::engine::stamp::Stamping;
use crate::results::record::Record;
use crate::results::sent::shown;

/// Pings before the start; the one with the shortest way tells the time.
const PINGS: usize = 16;
/// From one sign of life to the next.
const BEAT: Duration = Duration::from_secs(1);

/// How a run is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Go,
    Drain,
    Stop,
}

/// How an agent ended: with the intended time of its last request, or early, and why.
pub(super) type Ended = Result<u64, String>;

/// What became of an agent's run.
#[derive(Debug)]
pub(super) enum News {
    Record(Box<Record>),
    Ended(Ended),
}

/// An agent's clock against ours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compared {
    /// Theirs less ours, in nanoseconds; off by half of the way there and back at most.
    offset_ns: i128,
    pub(super) round_trip_ns: u64,
}

/// A connection to an agent.
#[derive(Debug)]
pub(super) struct Link {
    agent: String,
    frames: Frames,
    out: OwnedWriteHalf,
}

impl Link {
    /// Connects, and is let in.
    pub(super) async fn open(agent: &str, token: Option<&Token>) -> Result<Link, AgentsError> {
        let lacking = |why| AgentsError::Lacking { agent: agent.to_owned(), why };
        let fix = "start one there with `curtail agent`";
        let connected = timeout(GREETING, TcpStream::connect(agent)).await;
        let stream = connected
            .map_err(|_| lacking(format!("cannot be reached: no answer; {fix}")))?
            .map_err(|error| lacking(format!("cannot be reached: {error}; {fix}")))?;
        // As on the other side.
        let _ = stream.set_nodelay(true);
        let (read, out) = stream.into_split();
        let mut link = Link { agent: agent.to_owned(), frames: Frames::new(read), out };
        let token = token.map(|token| token.0.clone());
        let hello = Hello { protocol: PROTOCOL, curtail: CURTAIL.to_owned(), token };
        let sent = send(&mut link.out, &hello, GREETING_BYTES_MAX, GREETING).await;
        sent.map_err(|error| link.broken(&error))?;
        match link.next(GREETING).await? {
            Told::Welcome => Ok(link),
            other => Err(link.unexpected(other)),
        }
    }

    /// Tells it what to do, and waits until it is ready to.
    pub(super) async fn prepare(
        &mut self,
        sent: PartOfPlan,
    ) -> Result<Option<Stamping>, AgentsError> {
        let plan = Order::Plan(Box::new(sent));
        let sent = send(&mut self.out, &plan, ORDER_BYTES_MAX, SILENCE).await;
        sent.map_err(|error| self.broken(&error))?;
        match self.next(PREPARATION).await? {
            Told::Ready { stamps } => Ok(stamps),
            other => Err(self.unexpected(other)),
        }
    }

    /// Asks for the time; ours counts from `clock`.
    pub(super) async fn compare(&mut self, clock: Instant) -> Result<Compared, AgentsError> {
        let ns = |since: Instant| since.elapsed().as_nanos() as i128;
        let mut best: Option<Compared> = None;
        for _ in 0..PINGS {
            let asked_ns = ns(clock);
            self.order(&Order::Ping).await?;
            let theirs_ns = match self.next(SILENCE).await? {
                Told::Pong { at_ns } => i128::from(at_ns),
                other => return Err(self.unexpected(other)),
            };
            let told_ns = ns(clock);
            let compared = Compared {
                offset_ns: theirs_ns - (asked_ns + told_ns) / 2,
                round_trip_ns: (told_ns - asked_ns) as u64,
            };
            if best.is_none_or(|best| compared.round_trip_ns < best.round_trip_ns) {
                best = Some(compared);
            }
        }
        Ok(best.expect("there are some pings"))
    }

    /// Has it start at a time of our clock.
    pub(super) async fn start(&mut self, at_ns: u64, by: Compared) -> Result<(), AgentsError> {
        let theirs_ns = (i128::from(at_ns) + by.offset_ns).clamp(0, i128::from(u64::MAX));
        self.order(&Order::Start { at_ns: theirs_ns as u64 }).await?;
        self.frames.allow(TOLD_BYTES_MAX);
        Ok(())
    }

    /// Passes on orders and news until the run has ended, one way or the other.
    pub(super) async fn follow(
        mut self,
        number: usize,
        mut phase: watch::Receiver<Phase>,
        to: mpsc::Sender<(usize, News)>,
    ) {
        let ended = self.listen(number, &mut phase, &to).await;
        // Fails where the run is given up.
        let _ = to.send((number, News::Ended(ended))).await;
    }

    async fn listen(
        &mut self,
        number: usize,
        phase: &mut watch::Receiver<Phase>,
        to: &mpsc::Sender<(usize, News)>,
    ) -> Ended {
        let (mut beats, mut heard) = (tokio::time::interval(BEAT), Instant::now());
        loop {
            let order = tokio::select! {
                biased;
                told = self.frames.next() => {
                    heard = Instant::now();
                    match told.map_err(|error| error.to_string())? {
                        Told::Record(record) => {
                            let garbage = |why| FrameError::Garbage(why).to_string();
                            let record = Box::new(record.validate().map_err(garbage)?);
                            let sent = to.send((number, News::Record(record))).await;
                            sent.map_err(|_| "the run is over".to_owned())?;
                        }
                        Told::Pong { .. } => {}
                        Told::End { last_ns } => return Ok(last_ns),
                        Told::Failed { why } => return Err(shown(&why)),
                        other => return Err(self.unexpected(other).to_string()),
                    }
                    continue;
                }
                Ok(()) = phase.changed() => match *phase.borrow_and_update() {
                    Phase::Go => continue,
                    Phase::Drain => Order::Drain,
                    Phase::Stop => Order::Stop,
                },
                _ = beats.tick() => {
                    if heard.elapsed() > SILENCE {
                        return Err(FrameError::Silent(SILENCE).to_string());
                    }
                    Order::Ping
                }
            };
            let sent = send(&mut self.out, &order, GREETING_BYTES_MAX, SILENCE).await;
            sent.map_err(|error| error.to_string())?;
        }
    }

    async fn order(&mut self, order: &Order) -> Result<(), AgentsError> {
        let sent = send(&mut self.out, order, GREETING_BYTES_MAX, SILENCE).await;
        sent.map_err(|error| self.broken(&error))
    }

    async fn next(&mut self, patience: Duration) -> Result<Told, AgentsError> {
        self.frames.next_within(patience).await.map_err(|error| self.broken(&error))
    }

    fn broken(&self, error: &FrameError) -> AgentsError {
        let (agent, why) = (self.agent.clone(), error.to_string());
        match error {
            FrameError::TooLong { .. } => {
                AgentsError::Refused { agent, why: format!("{why}; use fewer queries or headers") }
            }
            _ => AgentsError::Lacking { agent, why },
        }
    }

    /// What it says instead of what was asked for.
    fn unexpected(&self, told: Told) -> AgentsError {
        let agent = self.agent.clone();
        let lacking = |why: String| AgentsError::Lacking { agent: agent.clone(), why };
        let refused = |why: String| AgentsError::Refused { agent: agent.clone(), why };
        match told {
            Told::Refused(Refusal::Version { protocol, curtail }) => lacking(format!(
                "it speaks version {protocol} of the protocol (curtail {}), and this curtail {CURTAIL} speaks \
                 {PROTOCOL}; run the same curtail on all machines",
                shown(&curtail)
            )),
            Told::Refused(Refusal::Token) => refused(
                "it wants another token; give the one that it was started with, by --token-file or \
                 CURTAIL_AGENT_TOKEN"
                    .to_owned(),
            ),
            Told::Refused(Refusal::Busy) => lacking(
                "it is busy with a run of another coordinator; wait for its end, or use another agent"
                    .to_owned(),
            ),
            Told::Refused(Refusal::Plan { why }) => refused(shown(&why)),
            Told::Refused(Refusal::Lacking { why }) | Told::Failed { why } => lacking(shown(&why)),
            _ => lacking("it says something that does not belong there".to_owned()),
        }
    }
}
