//! The facts that a report needs in addition to the record of the run.
//!
//! One of them is the idle time of the sending threads. A thread that is always busy reads responses
//! late and sends requests late, so its figures describe the generator instead of the server. Its
//! processor time alone does not show that, because shortly before a request is due, a thread polls
//! instead of sleeping. So idle time is counted directly, and `/proc/thread-self/schedstat` adds the
//! time that the thread waited for a processor.

use curtail_machine::Taken;
use serde::{Deserialize, Serialize};

use crate::engine::stamp::Stamping;
use crate::plan::profile::Profile;
use crate::plan::schedule::Extent;
use crate::plan::{Pace, Plan};

/// The facts that a report needs in addition to the record of the run.
#[derive(Debug, Clone)]
pub(crate) struct Facts<'a> {
    pub(crate) plan: &'a Plan,
    /// The bounds of the measured time, in nanoseconds from the start of the schedule.
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// The planned duration, to which the rate profile refers.
    pub(crate) planned_ns: u64,
    /// When the run was cut short.
    pub(crate) cut_ns: Option<u64>,
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
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct End {
    /// The intended time of the last request.
    pub(crate) last_ns: u64,
    /// When the run was cut short.
    pub(crate) cut_ns: Option<u64>,
    /// When the run had measured enough.
    pub(crate) enough_ns: Option<u64>,
}

impl<'a> Facts<'a> {
    /// Returns the facts about a run of this plan that ended in this way.
    pub(crate) fn of(plan: &'a Plan, end: End, stamps: Option<Stamping>) -> Facts<'a> {
        let start_ns = plan.warmup_ns;
        // The run ends at the time when one more request would have been due.
        let gap_ns = profile(plan).map_or(0, |profile| (1e9 / profile.first()) as u64);
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
            plan,
            start_ns,
            end_ns,
            planned_ns,
            cut_ns: end.cut_ns,
            stamps,
            sender: None,
            machine: None,
            agent: None,
        }
    }

    /// Returns the rate over time. `None` for a closed loop.
    pub(crate) fn profile(&self) -> Option<&Profile> {
        profile(self.plan)
    }

    pub(crate) fn measured_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Returns the mean rate per second if there were this many requests in the measured time.
    /// `None` for a closed loop.
    pub(crate) fn per_second(&self, requests: u64) -> Option<f64> {
        let seconds = self.measured_ns() as f64 / 1e9;
        self.profile().map(|_| requests as f64 / seconds).filter(|rate| rate.is_finite())
    }

    /// Returns the mean planned rate over the measured time.
    pub(crate) fn offered_rate(&self) -> Option<f64> {
        let profile = self.profile()?;
        Some(match self.measured_ns() {
            0 => profile.first(),
            ns if ns == self.planned_ns => profile.mean(ns),
            ns => profile.requests(ns as f64, self.planned_ns) / (ns as f64 / 1e9),
        })
    }
}

/// A thread with a smaller share of idle time counts as always busy.
const IDLE_MIN: f64 = 0.05;
/// If a thread without idle time spent at least this share of its time in the run queue, it lacks a
/// processor, and a second thread would not help.
const QUEUED_MUCH: f64 = 0.25;
/// A thread spends this share of its ready time (running or queued) in the run queue only if other
/// threads use its processor.
const KEPT_WAITING: f64 = 0.2;

fn profile(plan: &Plan) -> Option<&Profile> {
    match &plan.pace {
        Pace::Open { profile, .. } => Some(profile),
        Pace::Closed => None,
    }
}

/// Shares of the time during which a thread was sending. For several threads, each share is the
/// worst among them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sender {
    /// The share of the time when no request was due and no socket was ready.
    pub idle: f64,
    /// The share of the time that the thread spent on a processor. `None` if the system does not
    /// report it.
    pub ran: Option<f64>,
    /// The share of the time that the thread spent in the run queue: the thread was ready, but
    /// other threads used its processor.
    pub queued: Option<f64>,
}

impl Sender {
    /// Computes the shares. `schedstat` contains the time on a processor and the time in the run
    /// queue, in nanoseconds.
    pub(crate) fn of(elapsed_ns: u64, idle_ns: u64, schedstat: Option<[u64; 2]>) -> Sender {
        let share = |ns: u64| (ns as f64 / elapsed_ns.max(1) as f64).min(1.0);
        let [ran, queued] = [0, 1].map(|at| schedstat.map(|of| share(of[at])));
        Sender { idle: share(idle_ns), ran, queued }
    }

    pub(crate) fn merge(&mut self, other: &Sender) {
        let most = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        self.idle = self.idle.min(other.idle);
        self.ran = most(self.ran, other.ran);
        self.queued = most(self.queued, other.queued);
    }

    /// Whether a thread had no idle time left.
    pub(crate) fn spent(&self) -> bool {
        self.idle < IDLE_MIN
    }

    /// Whether a thread lost its time to other processes rather than to its own work.
    pub(crate) fn lacks_processor(&self) -> bool {
        self.queued.is_some_and(|queued| queued >= QUEUED_MUCH)
    }

    /// Whether a thread often waited for a processor when it was ready to run.
    pub(crate) fn kept_waiting(&self) -> bool {
        let share = |(ran, queued): (f64, f64)| queued / (ran + queued);
        self.ran.zip(self.queued).is_some_and(|both| share(both) >= KEPT_WAITING)
    }
}

/// Returns the calling thread's time on a processor and in the run queue, in nanoseconds. Returns
/// `None` if the system does not report them.
pub(crate) fn schedstat() -> Option<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut fields = text.split_ascii_whitespace().map_while(|field| field.parse().ok());
    Some([fields.next()?, fields.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_thread_counts() {
        let mut worst = Sender::of(1_000, 400, Some([500, 100]));
        worst.merge(&Sender::of(1_000, 20, Some([980, 0])));
        worst.merge(&Sender::of(1_000, 900, None));
        assert_eq!(worst, Sender { idle: 0.02, ran: Some(0.98), queued: Some(0.1) });
        assert!(worst.spent() && !worst.lacks_processor() && !worst.kept_waiting());
    }

    #[test]
    fn a_thread_that_waits_for_its_processor_is_recognized_at_any_rate() {
        assert!(Sender::of(1_000_000, 990_000, Some([2_000, 3_000])).kept_waiting());
        assert!(!Sender::of(1_000_000, 990_000, Some([9_000, 300])).kept_waiting());
        assert!(!Sender::of(1_000, 0, None).kept_waiting());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_thread_is_counted() {
        assert!(schedstat().is_some());
    }
}
