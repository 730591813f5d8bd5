//! The coordinator, which drives a run on several agents.
//!
//! All agents prepare before any request is sent, and the run fails if one of them cannot. Then all
//! start at the same time. If an agent is lost during the run, the load no longer matches the plan.
//! The coordinator then stops the other agents and reports what was measured before the loss.

use std::collections::HashSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::link::{Compared, Link, LinkEvent, Phase};
use super::message::PartOfPlan;
use super::verdict::{Member, alone, own_plan, report};
use super::{AGENTS_MAX, Agents, AgentsError, SILENCE, parse_agent};
use crate::engine::stamp::Stamping;
use crate::plan::Plan;
use crate::plan::share::Part;
use crate::results::facts::End;
use crate::results::record::Record;
use crate::results::report::Report;
use crate::results::watch::{Snapshot, Watch};
use crate::run::ticks;

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
        let mut end = End { last_ns: 0, cut_ns: None, enough_ns: None };
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
