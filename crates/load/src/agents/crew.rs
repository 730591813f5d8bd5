//! The coordinator, which drives a run on several agents, and its connection to each of them.
//!
//! All agents prepare before any request is sent, and the run fails if one of them cannot. Then all
//! start at the same time. If an agent is lost during the run, the load no longer matches the plan.
//! The coordinator then stops the other agents and reports what was measured before the loss.

use std::collections::HashSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::agents::message::{
    CURTAIL, FrameError, Frames, GREETING_BYTES_MAX, Hello, ORDER_BYTES_MAX, Order, PROTOCOL,
    PartOfPlan, Refusal, UPDATE_BYTES_MAX, Update, send,
};
use crate::agents::verdict::{Ended, Member, alone, own_plan, report};
use crate::agents::{
    AGENTS_MAX, Agents, AgentsError, GREETING, PREPARATION, SILENCE, Token, parse_agent,
};
use crate::engine::stamp::Stamping;
use crate::plan::Plan;
use crate::plan::schedule::Part;
use crate::results::facts::End;
use crate::results::record::Record;
use crate::results::report::Report;
use crate::results::watch::{Snapshot, Watch};
use crate::run::ticks;
use crate::session::printable;

/// Time between the start order and the start of the schedule, in addition to the network delay.
const LEAD: Duration = Duration::from_millis(250);
/// Maximum number of agent events that can wait to be merged. Further events wait in the
/// connections to the agents.
const EVENTS_MAX: usize = 2 * AGENTS_MAX;

/// Runs a plan on several agents and reports the sum of their measurements. Otherwise it works like
/// [`run`](crate::run). The agents share the plan's connections and backlog. Each runs the plan's
/// number of threads.
///
/// # Errors
///
/// Returns an [`AgentsError`] that names the agent that failed and gives the reason. After such an
/// error, either nothing was sent or nothing was measured.
///
/// # Panics
///
/// Panics outside of a tokio runtime with time and I/O enabled.
pub async fn run(
    plan: &Plan,
    agents: &Agents,
    cancel: impl Future<Output = ()>,
    progress: impl FnMut(&Snapshot),
) -> Result<Report, AgentsError> {
    plan.check()?;
    check(plan, agents)?;
    let mut cancel = pin!(cancel);
    let clock = Instant::now();
    let begun = async {
        let mut ready = prepare(plan, agents).await?;
        // Compare the clocks of all agents concurrently.
        let comparing = ready.iter_mut().map(|(link, _)| link.compare(clock));
        let compared = try_join_all(comparing).await?;
        start(ready, compared, clock, plan, agents).await
    };
    let crew = tokio::select! {
        biased;
        begun = begun => begun?,
        () = &mut cancel => return Err(AgentsError::Interrupted),
    };
    crew.drive(plan, cancel, progress).await
}

fn check(plan: &Plan, agents: &Agents) -> Result<(), AgentsError> {
    let count = agents.addresses.len();
    if !(1..=AGENTS_MAX).contains(&count) {
        return Err(AgentsError::Count(count));
    }
    let mut seen = HashSet::new();
    for address in &agents.addresses {
        if !seen.insert(parse_agent(address)?) {
            return Err(AgentsError::Twice(address.clone()));
        }
    }
    let need = count * plan.threads;
    if plan.connections < need {
        return Err(AgentsError::Connections { agents: count, threads: plan.threads, need });
    }
    Ok(())
}

fn part(number: usize, of: usize) -> Part {
    Part { number: number as u64, of: of as u64 }
}

/// Prepared links in the order of the agents, each with the timestamping that its agent offers.
type Ready = Vec<(Link, Option<Stamping>)>;

async fn prepare(plan: &Plan, agents: &Agents) -> Result<Ready, AgentsError> {
    let of = agents.addresses.len();
    let preparing = agents.addresses.iter().enumerate().map(async |(number, address)| {
        let part = part(number, of);
        let sent = PartOfPlan { part, plan: own_plan(plan, part) };
        sent.validate().map_err(AgentsError::Unsupported)?;
        let mut link = Link::open(address, agents.token.as_ref()).await?;
        let stamps = link.prepare(sent).await?;
        Ok((link, stamps))
    });
    try_join_all(preparing).await
}

async fn start(
    ready: Ready,
    compared: Vec<Compared>,
    clock: Instant,
    plan: &Plan,
    agents: &Agents,
) -> Result<Crew, AgentsError> {
    let way_ns = compared.iter().map(|by| by.round_trip_ns).max().unwrap_or_default();
    let lead = LEAD + Duration::from_nanos(2 * way_ns);
    let epoch = Instant::now() + lead;
    let start_ns = epoch.duration_since(clock).as_nanos() as u64;
    let (phase, orders) = watch::channel(Phase::Go);
    let (to, events) = mpsc::channel(EVENTS_MAX);
    let mut crew = Crew { epoch, phase, events, members: Vec::new(), links: JoinSet::new() };
    let of = ready.len();
    for (number, ((mut link, stamps), by)) in ready.into_iter().zip(compared).enumerate() {
        link.start(start_ns, by).await?;
        crew.links.spawn(link.follow(number, orders.clone(), to.clone()));
        let part = part(number, of);
        crew.members.push(Member {
            agent: agents.addresses[number].clone(),
            plan: alone(&own_plan(plan, part), part),
            stamps,
            round_trip_ns: by.round_trip_ns,
            record: Record::new(),
            last_record_ns: 0,
            ended: None,
        });
    }
    Ok(crew)
}

/// The running agents. Dropping this value closes the connections, which ends the agents' runs.
struct Crew {
    /// The time at which the schedule begins.
    epoch: Instant,
    phase: watch::Sender<Phase>,
    events: mpsc::Receiver<(usize, LinkEvent)>,
    members: Vec<Member>,
    links: JoinSet<()>,
}

impl Crew {
    async fn drive(
        mut self,
        plan: &Plan,
        mut cancel: std::pin::Pin<&mut impl Future<Output = ()>>,
        mut progress: impl FnMut(&Snapshot),
    ) -> Result<Report, AgentsError> {
        let (mut watch, mut ticks, mut since) = (Watch::new(), ticks(), Record::new());
        let mut end = End::default();
        // If an agent is lost before the user cancels, the run was cut short by the loss, not by
        // the user.
        let (mut interrupted, mut cancelled) = (false, false);
        while self.members.iter().any(|member| member.ended.is_none()) {
            tokio::select! {
                biased;
                () = &mut cancel, if !cancelled => {
                    cancelled = true;
                    interrupted = end.cut_ns.is_none();
                    self.cut(&mut end);
                }
                _ = ticks.tick() => {
                    let record = std::mem::replace(&mut since, Record::new());
                    progress(&watch.look_at(record, self.elapsed_ns(), plan));
                    if end.enough_ns.is_none() && watch.sure_enough(plan) {
                        end.enough_ns = Some(self.elapsed_ns());
                        let _ = self.phase.send(Phase::Drain);
                    }
                    self.give_up(&end);
                }
                Some((number, event)) = self.events.recv() => {
                    if self.take(number, event, &mut since, &mut end) {
                        self.cut(&mut end);
                    }
                }
            }
        }
        self.add_unreported(plan, &mut since, &end);
        progress(&watch.last_look(since, self.elapsed_ns(), plan));
        if let Some(nothing) = self.nothing(&watch.total, interrupted) {
            return Err(nothing);
        }
        Ok(report(plan, watch.total, std::mem::take(&mut self.members), end, interrupted))
    }

    /// Handles an event from an agent. Returns true if the agent is lost.
    fn take(&mut self, number: usize, event: LinkEvent, since: &mut Record, end: &mut End) -> bool {
        let now_ns = self.elapsed_ns();
        let member = &mut self.members[number];
        match event {
            LinkEvent::Record(record) => {
                member.record.merge(&record);
                member.last_record_ns = now_ns;
                since.merge(&record);
                false
            }
            LinkEvent::Ended(ended) => {
                end.last_ns = end.last_ns.max(ended.as_ref().map_or(0, |done| done.last_ns));
                member.ended.insert(ended).is_err()
            }
        }
    }

    /// Adds the requests that were due on lost agents but are missing from their records.
    fn add_unreported(&mut self, plan: &Plan, since: &mut Record, end: &End) {
        let until_ns = end.cut_ns.unwrap_or(end.last_ns);
        let of = self.members.len();
        for (number, member) in self.members.iter_mut().enumerate() {
            for slot in member.unreported(plan, part(number, of), until_ns) {
                let age_ns = until_ns.saturating_sub(slot.at_ns);
                for record in [&mut member.record, &mut *since] {
                    record.add_unreported(&slot, plan.warmup_ns, age_ns);
                }
            }
        }
    }

    /// Stops the run now.
    fn cut(&self, end: &mut End) {
        if end.cut_ns.is_none() {
            end.cut_ns = Some(self.elapsed_ns());
        }
        // Fails if every link has ended.
        let _ = self.phase.send(Phase::Stop);
    }

    /// An agent is declared lost if it has not stopped within [`SILENCE`] after the run was cut
    /// short.
    fn give_up(&mut self, end: &End) {
        let Some(cut_ns) = end.cut_ns else { return };
        if self.elapsed_ns().saturating_sub(cut_ns) < SILENCE.as_nanos() as u64 {
            return;
        }
        for member in &mut self.members {
            let why = || Err("it did not stop when it was ordered to".to_owned());
            member.ended.get_or_insert_with(why);
        }
    }

    /// Returns an error if an agent was lost before anything was measured, because there is nothing
    /// to report.
    fn nothing(&self, total: &Record, interrupted: bool) -> Option<AgentsError> {
        if total.requests > 0 || interrupted {
            return None;
        }
        self.members.iter().find_map(|member| match &member.ended {
            Some(Err(why)) => {
                let why = format!("{why}, before anything was measured");
                Some(AgentsError::Lacking { agent: member.agent.clone(), why })
            }
            _ => None,
        })
    }

    fn elapsed_ns(&self) -> u64 {
        Instant::now().saturating_duration_since(self.epoch).as_nanos() as u64
    }
}

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
                        Update::Failed { why } => return Err(printable(&why)),
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
                printable(&curtail)
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
            Update::Refused(Refusal::Plan { why }) => refused(printable(&why)),
            Update::Refused(Refusal::Lacking { why }) | Update::Failed { why } => {
                lacking(printable(&why))
            }
            _ => lacking("it sent an unexpected message".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::message::Done;

    #[tokio::test]
    async fn a_cancel_after_an_agent_was_lost_is_handled_once() {
        let plan = Plan::new("http://127.0.0.1:1/".parse().unwrap(), 1.0);
        let member = |agent: &str| Member {
            agent: agent.to_owned(),
            plan: plan.clone(),
            stamps: None,
            round_trip_ns: 0,
            record: Record::new(),
            last_record_ns: 0,
            ended: None,
        };
        let (phase, mut orders) = watch::channel(Phase::Go);
        let (to, events) = mpsc::channel(EVENTS_MAX);
        let members = vec![member("lost:1"), member("fine:1")];
        let crew = Crew { epoch: Instant::now(), phase, events, members, links: JoinSet::new() };
        to.send((0, LinkEvent::Ended(Err("it is gone".to_owned())))).await.unwrap();
        let cancel = pin!(async {
            // At this point, the lost agent has cut the run short. The other agent's run ends only
            // after the stop order.
            orders.wait_for(|phase| *phase == Phase::Stop).await.unwrap();
            to.send((1, LinkEvent::Ended(Ok(Done::default())))).await.unwrap();
        });
        let error = crew.drive(&plan, cancel, |_| {}).await.unwrap_err().to_string();
        assert!(error.contains("lost:1") && error.contains("it is gone"), "{error}");
    }
}
