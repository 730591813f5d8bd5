//! The facts that a report needs in addition to the record of the run.

use curtail_dist::arrivals::Arrivals;
use curtail_jitter::machine::Taken;

use crate::engine::stamp::Stamping;
use crate::plan::profile::Profile;
use crate::plan::{Extent, Pace, Plan, Precision};
use crate::results::sender::Sender;

/// The facts that a report needs in addition to the record of the run.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// `None` for a closed loop.
    pub(crate) profile: Option<Profile>,
    /// Whether the plan has Poisson arrivals.
    pub(crate) poisson: bool,
    pub(crate) connections: usize,
    pub(crate) backlog: usize,
    pub(crate) threads: usize,
    pub(crate) spin: bool,
    pub(crate) timeout_ns: u64,
    /// The bounds of the measured time, in nanoseconds from the start of the schedule.
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// The planned duration, to which the rate profile refers.
    pub(crate) planned_ns: u64,
    /// When the run was cut short.
    pub(crate) cut_ns: Option<u64>,
    /// The precision that the plan requires.
    pub(crate) until: Option<Precision>,
    /// `None` if the plan asks only for the program's own timestamps.
    pub(crate) stamps: Option<Stamping>,
    /// The idle time of the threads, if known.
    pub(crate) sender: Option<Sender>,
    /// The share of the machine's processor time that other processes and the hypervisor took, if
    /// known.
    pub(crate) machine: Option<Taken>,
    /// The agent's address, if this is an agent's part of a load.
    pub(crate) agent: Option<String>,
}

/// When a run ended, in nanoseconds since the start of the schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    /// The intended time of the last request.
    pub(crate) last_ns: u64,
    /// When the run was cut short.
    pub(crate) cut_ns: Option<u64>,
    /// When the run had measured enough.
    pub(crate) enough_ns: Option<u64>,
}

impl Facts {
    /// Returns the facts about a run of this plan that ended in this way.
    pub(crate) fn of(plan: &Plan, end: End, stamps: Option<Stamping>) -> Facts {
        let start_ns = plan.warmup_ns;
        let (profile, poisson) = match &plan.pace {
            Pace::Open { profile, arrivals } => {
                (Some(profile.clone()), matches!(arrivals, Arrivals::Poisson))
            }
            Pace::Closed => (None, false),
        };
        // The run ends at the time when one more request would have been due.
        let gap_ns = profile.as_ref().map_or(0, |profile| (1e9 / profile.first()) as u64);
        let early_ns = end.cut_ns.or(end.enough_ns);
        let (planned_ns, end_ns) = match plan.extent {
            Extent::Duration { ns } => {
                let planned_end_ns = start_ns.saturating_add(ns);
                // The wait for the last responses does not extend the run, because nothing is sent
                // during it.
                (ns, early_ns.map_or(planned_end_ns, |early_ns| early_ns.min(planned_end_ns)))
            }
            Extent::Requests(_) => {
                let end_ns = early_ns.unwrap_or(end.last_ns.saturating_add(gap_ns));
                (end_ns.saturating_sub(start_ns), end_ns)
            }
        };
        Facts {
            profile,
            poisson,
            connections: plan.connections,
            backlog: plan.backlog,
            threads: plan.threads,
            spin: plan.spin,
            timeout_ns: plan.timeout_ns,
            start_ns,
            end_ns,
            planned_ns,
            cut_ns: end.cut_ns,
            until: plan.until.clone(),
            stamps,
            sender: None,
            machine: None,
            agent: None,
        }
    }

    pub(crate) fn measured_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Returns the mean rate per second if there were this many requests in the measured time.
    /// `None` for a closed loop.
    pub(crate) fn per_second(&self, requests: u64) -> Option<f64> {
        let seconds = self.measured_ns() as f64 / 1e9;
        self.profile.as_ref().map(|_| requests as f64 / seconds).filter(|rate| rate.is_finite())
    }

    /// Returns the mean planned rate over the measured time.
    pub(crate) fn offered_rate(&self) -> Option<f64> {
        let profile = self.profile.as_ref()?;
        Some(match self.measured_ns() {
            0 => profile.first(),
            ns if ns == self.planned_ns => profile.mean(ns),
            ns => profile.requests(ns as f64, self.planned_ns) / (ns as f64 / 1e9),
        })
    }
}
