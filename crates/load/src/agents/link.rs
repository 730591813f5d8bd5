//! A coordinator's connection to one agent.

use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::frame::{
    FrameError, Frames, GREETING_BYTES_MAX, ORDER_BYTES_MAX, UPDATE_BYTES_MAX, send,
};
use super::message::{CURTAIL, Done, Hello, Order, PROTOCOL, PartOfPlan, Refusal, Update};
use super::{AgentsError, GREETING, PREPARATION, SILENCE, Token};
use crate::engine::stamp::Stamping;
use crate::results::record::Record;
use crate::results::sent::shown;

/// Number of pings before the start. The ping with the shortest round trip determines the clock
/// offset.
const PINGS: usize = 16;
/// Time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The phase of the run, as ordered by the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Go,
    Drain,
    Stop,
}

/// The way in which an agent's run ended: normally, or early for the given reason.
pub(super) type Ended = Result<Done, String>;

/// An event during an agent's run.
#[derive(Debug)]
pub(super) enum LinkEvent {
    Record(Box<Record>),
    Ended(Ended),
}

/// The result of comparing the agent's clock with the coordinator's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compared {
    /// The agent's time minus the coordinator's time, in nanoseconds. The error is at most half of
    /// the round-trip time.
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
    /// Connects to the agent, and waits until it admits this coordinator.
    pub(super) async fn open(agent: &str, token: Option<&Token>) -> Result<Link, AgentsError> {
        let lacking = |why| AgentsError::Lacking { agent: agent.to_owned(), why };
        let fix = "start one there with `curtail agent`";
        let connected = timeout(GREETING, TcpStream::connect(agent)).await;
        let stream = connected
            .map_err(|_| lacking(format!("cannot be reached: no response; {fix}")))?
            .map_err(|error| lacking(format!("cannot be reached: {error}; {fix}")))?;
        // Without this option, the system could hold a ping back until the previous one is
        // acknowledged.
        let _ = stream.set_nodelay(true);
        let (read, out) = stream.into_split();
        let mut link = Link { agent: agent.to_owned(), frames: Frames::new(read), out };
        let token = token.map(|token| token.0.clone());
        let hello = Hello { protocol: PROTOCOL, curtail: CURTAIL.to_owned(), token };
        let sent = send(&mut link.out, &hello, GREETING_BYTES_MAX, GREETING).await;
        sent.map_err(|error| link.broken(&error))?;
        match link.next(GREETING).await? {
            Update::Welcome => Ok(link),
            other => Err(link.unexpected(other)),
        }
    }

    /// Sends the agent its part of the plan, and waits for the agent to be ready.
    pub(super) async fn prepare(
        &mut self,
        sent: PartOfPlan,
    ) -> Result<Option<Stamping>, AgentsError> {
        let plan = Order::Plan(Box::new(sent));
        let sent = send(&mut self.out, &plan, ORDER_BYTES_MAX, SILENCE).await;
        sent.map_err(|error| self.broken(&error))?;
        match self.next(PREPARATION).await? {
            Update::Ready { stamps } => Ok(stamps),
            other => Err(self.unexpected(other)),
        }
    }

    /// Compares the agent's clock with the coordinator's, which counts from `clock`.
    pub(super) async fn compare(&mut self, clock: Instant) -> Result<Compared, AgentsError> {
        let ns = |since: Instant| since.elapsed().as_nanos() as i128;
        let mut best: Option<Compared> = None;
        for _ in 0..PINGS {
            let sent_ns = ns(clock);
            self.order(&Order::Ping).await?;
            let theirs_ns = match self.next(SILENCE).await? {
                Update::Pong { at_ns } => i128::from(at_ns),
                other => return Err(self.unexpected(other)),
            };
            let received_ns = ns(clock);
            let compared = Compared {
                offset_ns: theirs_ns - (sent_ns + received_ns) / 2,
                round_trip_ns: (received_ns - sent_ns) as u64,
            };
            if best.is_none_or(|best| compared.round_trip_ns < best.round_trip_ns) {
                best = Some(compared);
            }
        }
        Ok(best.expect("there are some pings"))
    }

    /// Orders the agent to start at a time on our clock.
    pub(super) async fn start(&mut self, at_ns: u64, by: Compared) -> Result<(), AgentsError> {
        let theirs_ns = (i128::from(at_ns) + by.offset_ns).clamp(0, i128::from(u64::MAX));
        self.order(&Order::Start { at_ns: theirs_ns as u64 }).await?;
        self.frames.allow(UPDATE_BYTES_MAX);
        Ok(())
    }

    /// Relays orders and events until the run has ended.
    pub(super) async fn follow(
        mut self,
        number: usize,
        mut phase: watch::Receiver<Phase>,
        to: mpsc::Sender<(usize, LinkEvent)>,
    ) {
        let ended = self.listen(number, &mut phase, &to).await;
        // This fails if the coordinator has dropped the run.
        let _ = to.send((number, LinkEvent::Ended(ended))).await;
    }

    async fn listen(
        &mut self,
        number: usize,
        phase: &mut watch::Receiver<Phase>,
        to: &mpsc::Sender<(usize, LinkEvent)>,
    ) -> Ended {
        let (mut heartbeats, mut last_update) = (tokio::time::interval(HEARTBEAT), Instant::now());
        loop {
            let order = tokio::select! {
                biased;
                update = self.frames.next() => {
                    last_update = Instant::now();
                    match update.map_err(|error| error.to_string())? {
                        Update::Record(record) => {
                            let malformed = |why| FrameError::Malformed(why).to_string();
                            let record = Box::new(record.validate().map_err(malformed)?);
                            let sent = to.send((number, LinkEvent::Record(record))).await;
                            sent.map_err(|_| "the run is over".to_owned())?;
                        }
                        Update::Pong { .. } => {}
                        Update::End(done) => return Ok(done),
                        Update::Failed { why } => return Err(shown(&why)),
                        other => return Err(self.unexpected(other).to_string()),
                    }
                    continue;
                }
                Ok(()) = phase.changed() => match *phase.borrow_and_update() {
                    Phase::Go => continue,
                    Phase::Drain => Order::Drain,
                    Phase::Stop => Order::Stop,
                },
                _ = heartbeats.tick() => {
                    if last_update.elapsed() > SILENCE {
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

    async fn next(&mut self, time: Duration) -> Result<Update, AgentsError> {
        self.frames.next_within(time).await.map_err(|error| self.broken(&error))
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

    /// Returns the error for an unexpected update.
    fn unexpected(&self, update: Update) -> AgentsError {
        let agent = self.agent.clone();
        let lacking = |why: String| AgentsError::Lacking { agent: agent.clone(), why };
        let refused = |why: String| AgentsError::Refused { agent: agent.clone(), why };
        match update {
            Update::Refused(Refusal::Version { protocol, curtail }) => lacking(format!(
                "it uses version {protocol} of the protocol (curtail {}), and this curtail \
                 {CURTAIL} uses {PROTOCOL}; run the same version of curtail on all machines",
                shown(&curtail)
            )),
            Update::Refused(Refusal::Token) => refused(
                "it requires another token; pass the one that it was started with, with \
                 --token-file or CURTAIL_AGENT_TOKEN"
                    .to_owned(),
            ),
            Update::Refused(Refusal::Busy) => lacking(
                "it is busy with a run of another coordinator; wait until that run ends, or use \
                 another agent"
                    .to_owned(),
            ),
            Update::Refused(Refusal::Plan { why }) => refused(shown(&why)),
            Update::Refused(Refusal::Lacking { why }) | Update::Failed { why } => {
                lacking(shown(&why))
            }
            _ => lacking("it sent an unexpected message".to_owned()),
        }
    }
}
