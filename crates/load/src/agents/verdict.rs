//! Draws conclusions from a load that several machines sent.
//!
//! The sum is a single record, so every conclusion that can be drawn from a single run can be drawn
//! from the sum. Counts add up. Confidence intervals can be computed as if one machine had recorded
//! all latencies, because the agents' blocks of time coincide. Every agent counts its blocks from
//! the start of the same schedule, and the agents start less than a block apart. Each agent is also
//! judged by the requests that it sent. If one agent falls behind, the load differs from the plan,
//! even if the sum looks fine.

use std::mem::discriminant;

use crate::agents::message::Done;
use crate::engine::stamp::Stamping;
use crate::plan::schedule::{Part, Share, Slot};
use crate::plan::{Pace, Plan};
use crate::results::conclude::conclude;
use crate::results::facts::{End, Facts};
use crate::results::record::Record;
use crate::results::report::{AgentReport, Report};
use crate::results::verdict::{Invalid, Note};

/// The way in which an agent's run ended: normally, or early for the given reason.
pub(super) type Ended = Result<Done, String>;

/// The state of an agent at the end.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) agent: String,
    /// The agent's own plan, with its share of the rate.
    pub(super) plan: Plan,
    pub(super) stamps: Option<Stamping>,
    pub(super) round_trip_ns: u64,
    pub(super) record: Record,
    /// When the last record arrived, in nanoseconds since the start of the schedule.
    pub(super) last_record_ns: u64,
    /// `None` while the agent runs.
    pub(super) ended: Option<Ended>,
}

/// Returns the plan to send to an agent. The plan contains the agent's share of the connections and
/// the backlog. It contains the whole rate, because the agent draws the whole schedule and sends
/// only its part. See [`alone`].
pub(crate) fn own_plan(plan: &Plan, part: Part) -> Plan {
    let share = |all: usize| part.share_of(all as u64) as usize;
    let mut own = plan.clone();
    (own.connections, own.backlog) = (share(plan.connections), share(plan.backlog));
    own.until = None;
    if plan.pace == Pace::Closed && part.of > 1 {
        // Otherwise all agents would draw the same requests.
        let number = part.number.to_le_bytes();
        own.seed = curtail_dist::seed::stream(plan.seed, &[b"load", b"machine", &number]);
    }
    own
}

/// Returns the agent's plan with its share of the rate instead of the whole rate. The agent is
/// judged by this plan.
pub(super) fn alone(own: &Plan, part: Part) -> Plan {
    // The verdict does not read the queries.
    let mut alone = Plan { queries: Vec::new(), ..own.clone() };
    if let Pace::Open { profile, .. } = &mut alone.pace {
        *profile = profile.scaled(1.0 / part.of as f64);
    }
    alone
}

/// Returns the combined report on all agents. `interrupted` is true if the user stopped the run,
/// and false if a lost agent did.
pub(super) fn report(
    plan: &Plan,
    total: Record,
    members: Vec<Member>,
    end: End,
    interrupted: bool,
) -> Report {
    let stamps = members.iter().filter_map(|member| member.stamps.clone());
    let stamps = stamps.reduce(|mut all, next| {
        all.merge(next);
        all
    });
    let start_skew_ns = skew_ns(&members);
    // The worst thread limits the load.
    let senders = members.iter().filter_map(|member| member.ended.as_ref()?.as_ref().ok()?.sender);
    let sender = senders.reduce(|mut worst, next| {
        worst.merge(&next);
        worst
    });
    let mut report = conclude(total, &Facts { sender, ..Facts::of(plan, end, stamps) });
    if !interrupted {
        report.invalid_because.retain(|reason| !matches!(reason, Invalid::Interrupted { .. }));
    }
    if members.iter().any(|member| member.lost().is_some()) {
        // The lost agent's requests are missing, so the gaps between the other requests do not
        // follow the arrival process.
        report.arrival_test = None;
        report.invalid_because.retain(|reason| !matches!(reason, Invalid::NotPoisson { .. }));
        report.notes.retain(|note| !matches!(note, Note::NotPoisson { .. }));
    }
    let of_sum: Vec<_> = report.invalid_because.iter().map(discriminant).collect();
    for member in members {
        let lost = member.lost();
        let of_member = member.report(end);
        report.invalid_because.splice(0..0, lost);
        let reasons = of_member.invalid_because.iter();
        let own = reasons.filter(|why| is_own(why) || !of_sum.contains(&discriminant(*why)));
        report.invalid_because.extend(own.filter(|reason| is_new(reason)).map(|reason| {
            Invalid::Agent { agent: of_member.agent.clone(), reason: Box::new(reason.clone()) }
        }));
        let busy = |note: &&Note| matches!(note, Note::BusyMachine { .. });
        report.notes.extend(of_member.notes.iter().filter(busy).cloned());
        report.agents.push(of_member);
    }
    report.valid = report.invalid_because.is_empty();
    report.start_skew_ns = Some(start_skew_ns);
    report
}

impl Member {
    /// Returns the lost agent's requests that were due by `until_ns` but are missing from its
    /// records. Returns nothing if the agent was not lost. Records contain only counts, so they do
    /// not show which requests are missing. The function assumes that the latest requests are
    /// missing, so that it does not overestimate the age of any request.
    pub(super) fn unreported(&self, plan: &Plan, part: Part, until_ns: u64) -> Vec<Slot> {
        if self.lost().is_none() {
            return Vec::new();
        }
        let Record { requests, sent, answered, failed, .. } = self.record;
        // A single thread draws the agent's whole part of the schedule.
        let own = Plan { queries: Vec::new(), ..own_plan(plan, part) };
        let (Pace::Open { .. }, Ok(schedule)) = (&plan.pace, own.schedule()) else {
            // A closed loop has no schedule. These requests were in flight when the last record
            // arrived.
            let last = Slot { index: 0, at_ns: self.last_record_ns, query: 0, warmup: false };
            let count = sent.saturating_sub(answered + failed).min(plan.connections as u64);
            return (0..count).filter(|_| last.at_ns >= plan.warmup_ns).map(|_| last).collect();
        };
        let due = Share::new(schedule, part, 1, 0).take_while(|slot| slot.at_ns <= until_ns);
        due.filter(|slot| !slot.warmup).skip(requests as usize).collect()
    }

    /// The reason why the agent's part ended early, if the agent was lost.
    fn lost(&self) -> Option<Invalid> {
        match &self.ended {
            Some(Err(why)) => {
                Some(Invalid::AgentLost { agent: self.agent.clone(), why: why.clone() })
            }
            _ => None,
        }
    }

    fn report(self, end: End) -> AgentReport {
        let lost = self.lost();
        let done = match self.ended {
            Some(Ok(done)) => done,
            _ => Done { last_ns: end.last_ns, ..Done::default() },
        };
        let Done { last_ns, sender, machine } = done;
        let facts = Facts {
            sender,
            machine,
            agent: Some(self.agent.clone()),
            ..Facts::of(&self.plan, End { last_ns, ..end }, self.stamps)
        };
        let own = conclude(self.record, &facts);
        let mut invalid_because: Vec<Invalid> =
            own.invalid_because.into_iter().filter(|reason| !is_nothing(reason)).collect();
        invalid_because.splice(0..0, lost);
        AgentReport {
            agent: self.agent,
            valid: invalid_because.is_empty(),
            invalid_because,
            offered_rate: own.offered_rate,
            achieved_rate: own.achieved_rate,
            requests: own.requests,
            errors: own.errors,
            latency_ns: own.latency_ns,
            schedule_lag_ns: own.schedule_lag_ns,
            sender: own.sender,
            machine: own.machine,
            notes: own.notes,
            round_trip_ns: self.round_trip_ns,
        }
    }
}

/// Whether the agent had no requests to send. This can happen in a short run.
fn is_nothing(reason: &Invalid) -> bool {
    matches!(reason, Invalid::NothingMeasured { requests: 0 })
}

/// Whether the generator is at fault. All other faults lie with the server, so the report on the
/// sum also shows them.
fn is_own(reason: &Invalid) -> bool {
    matches!(
        reason,
        Invalid::FellBehind { .. }
            | Invalid::Dropped { .. }
            | Invalid::StampsMissing { .. }
            | Invalid::NotPoisson { .. }
    )
}

/// Whether the overall report does not contain this reason yet.
fn is_new(reason: &Invalid) -> bool {
    !matches!(reason, Invalid::Interrupted { .. } | Invalid::AgentLost { .. })
}

/// Returns the largest possible difference between the starts of two agents. The error of each
/// clock offset is at most half of the round-trip time.
fn skew_ns(members: &[Member]) -> u64 {
    let mut halves: Vec<u64> = members.iter().map(|member| member.round_trip_ns / 2).collect();
    halves.sort_unstable_by(|a, b| b.cmp(a));
    match halves[..] {
        [far, next, ..] => far.saturating_add(next),
        _ => 0,
    }
}
