//! Detects runs without a steady state.
//!
//! A run is unstable if its queues overflowed. It is also unstable if its backlog grew from one
//! quarter of the measured time to the next, provided that the servers were full or that more than
//! a small share of the queries was unfinished at the end. Growth alone is not enough, because a
//! stable backlog fluctuates at high load. Full servers alone are not enough, because a policy that
//! fills idle servers with second copies keeps them busy at any load. Full servers are not required
//! either, because slots are held while messages are on the network, and servers may be down.
//!
//! If the offered work exceeds the capacity of all servers, the experiment is unstable regardless
//! of its runs, because a short run may look stable.

use curtail_kernel::Core;
use curtail_kernel::hedge::AllCopies;
use serde::{Serialize, Serializer};

use crate::candidate::Candidate;
use crate::experiment::Experiment;
use crate::tally::Tally;
use curtail_dist::arrivals::Arrivals;

/// A backlog counts as growing if it grows by more than this factor from one quarter to the next.
/// For a backlog that grows steadily from zero, the factors are 5/3 and 7/5.
const GROWTH: f64 = 1.2;

/// Servers that are busy for more than this share of the time count as full.
const FULL: f64 = 0.99;

/// A backlog whose growth exceeds this share of the queries does not just fluctuate. The growth
/// must also exceed the number of slots, because a run that is shorter than a service time only
/// fills the slots.
const LEFT_OVER: f64 = 0.02;

/// The reason why an experiment has no steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unstable {
    /// Even the copies that are guaranteed to run to completion are more work than the servers can
    /// do.
    Overload,
    /// The queue of a shard or the queues of its servers overflowed.
    QueueFull,
    /// Too many requests were open at once.
    TooManyOpen,
    /// The backlog grew from one quarter of the measured time to the next.
    Growth,
}

impl Unstable {
    /// Returns the reason's name for programs.
    fn kind(self) -> &'static str {
        match self {
            Self::Overload => "overload",
            Self::QueueFull => "queue-full",
            Self::TooManyOpen => "too-many-open",
            Self::Growth => "growth",
        }
    }

    /// Returns the reason as text.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Overload => "more work arrives than the replicas can do",
            Self::QueueFull => "a shard's queue was full; see --queue",
            Self::TooManyOpen => "too many requests are open at once",
            Self::Growth => "queues grow without limit",
        }
    }
}

impl Serialize for Unstable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([("kind", self.kind()), ("text", self.text())])
    }
}

/// Returns the reason why an experiment has no steady state, or `None` if it has one.
pub(crate) fn judge(
    experiment: &Experiment,
    candidate: Candidate,
    runs: &[Tally],
) -> Option<Unstable> {
    if is_overloaded(experiment, candidate) {
        return Some(Unstable::Overload);
    }
    if runs.iter().any(|run| run.queue_full) {
        return Some(Unstable::QueueFull);
    }
    if runs.iter().any(|run| run.overflowed) {
        return Some(Unstable::TooManyOpen);
    }
    (!is_stable(runs, experiment.slots_in_all())).then_some(Unstable::Growth)
}

/// Whether the offered work exceeds the servers' capacity, before or after a change.
fn is_overloaded(experiment: &Experiment, candidate: Candidate) -> bool {
    let is_met = experiment.world.change_at().is_none_or(|at| at > 0);
    (is_met && overloads(experiment, candidate))
        || experiment.after().is_some_and(|after| overloads(&after, candidate))
}

/// Whether the offered work exceeds the servers' capacity. Work that equals the capacity also
/// exceeds it in this sense, because it leaves no time to catch up after a burst. Constant arrivals
/// are an exception, because they have no bursts.
fn overloads(experiment: &Experiment, candidate: Candidate) -> bool {
    // The speed in slow intervals may be higher than the normal speed, and a server that fails
    // loses its work.
    if experiment.world.is_disturbed() {
        return false;
    }
    let load = least_work(experiment, candidate) / experiment.capacity() / experiment.gap_ns();
    let most =
        if experiment.arrivals == Arrivals::Constant { 1.0 + ROUNDING } else { 1.0 - ROUNDING };
    load > most
}

/// Returns the minimum mean work of a query if the servers are never idle: its service time plus
/// the jitter, for each copy that is guaranteed to run. Policies that give second copies only to
/// idle servers start none in that case. Other policies may stop a copy in favor of one without
/// jitter.
fn least_work(experiment: &Experiment, candidate: Candidate) -> f64 {
    let service = experiment.service.mean();
    let servers = experiment.world.servers().min(Core::MOST_COPIES.into());
    let copies = match candidate {
        candidate if candidate.is_without_jitter() => return service,
        Candidate::Policy(policy) if policy.needs_cancellation() && !policy.pulls() => {
            return service;
        }
        // With a narrow gate, a query's other copies are sent only while no query is waiting.
        Candidate::Policy(policy) if !policy.pulls() => {
            match policy.hedge().map(|hedge| hedge.of.builds.copies) {
                Some(AllCopies::Two) => servers.min(2),
                Some(AllCopies::EveryServer) => servers,
                Some(AllCopies::One) | None => 1,
            }
        }
        _ => 1,
    };
    f64::from(copies) * (service + experiment.mean_jitter())
}

const ROUNDING: f64 = 1e-9;

/// Whether at most half of the runs are unstable. `slots` is the total number of slots of all
/// servers.
fn is_stable(runs: &[Tally], slots: u64) -> bool {
    let unstable = runs.iter().filter(|run| grows(run, slots)).count();
    unstable * 2 <= runs.len()
}

fn grows(run: &Tally, slots: u64) -> bool {
    let mean = |(sum, count): (u64, u64)| (count > 0).then(|| sum as f64 / count as f64);
    let quarters: Option<Vec<f64>> = run.backlog.iter().map(|&quarter| mean(quarter)).collect();
    let Some(quarters) = quarters else { return false };
    let full = run.busy_ns as f64 >= FULL * run.capacity_ns as f64;
    let left_over = quarters[3] > slots as f64
        && quarters[3] - quarters[0] > LEFT_OVER * run.queries.len() as f64;
    (full || left_over) && quarters[1..].windows(2).all(|pair| pair[1] > GROWTH * pair[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parameters;

    #[test]
    fn more_work_than_the_servers_can_do_is_unstable_however_short_the_run() {
        let overloaded = |utilization: f64, arrivals: &str, speeds: &[f64]| {
            let (arrivals, speeds) = (arrivals.to_owned(), speeds.to_vec());
            let parameters = Parameters { utilization, arrivals, speeds, ..Parameters::default() };
            is_overloaded(&parameters.experiment().expect("an experiment"), PSQ)
        };
        assert!(overloaded(1.0, "poisson", &[]) && overloaded(1.3, "constant", &[]));
        assert!(overloaded(1.0, "poisson", &[1.0, 0.5]));
        assert!(!overloaded(0.999, "poisson", &[]) && !overloaded(1.0, "constant", &[]));
    }

    use curtail_kernel::Policy;

    const PSQ: Candidate = Candidate::Policy(Policy::PSQ);

    #[test]
    fn work_that_no_policy_can_save_counts() {
        let overloaded = |policy: &str, utilization: f64| {
            let jitter = Some("bimodal:0.01:15".to_owned());
            let parameters =
                Parameters { utilization, jitter, replicas: 3, ..Parameters::default() };
            let candidate = Candidate::parse(policy, crate::UNIT_NS).expect("a policy");
            is_overloaded(&parameters.experiment().expect("an experiment"), candidate)
        };
        // The jitter adds 15 % to the work.
        for policy in ["psq", "random", "laedge", "laedge:cc+pc", "idealized", "delayed:3"] {
            assert!(!overloaded(policy, 0.86) && overloaded(policy, 0.9), "{policy}");
        }
        for policy in ["app-timeout:3", "delayed:3:cc", "tied", "o1"] {
            assert!(!overloaded(policy, 0.99), "{policy} may save the jitter");
        }
        assert!(!overloaded("naive", 0.43) && overloaded("naive", 0.44));
        assert!(!overloaded("clone", 0.28) && overloaded("clone", 0.3));
    }

    fn run(backlog: [u64; 4]) -> Tally {
        Tally { backlog: backlog.map(|sum| (sum, 1)), ..Tally::new() }
    }

    #[test]
    fn steady_growth_is_unstable_and_swings_are_not() {
        assert!(!is_stable(&[run([100, 300, 500, 700])], 0));
        assert!(is_stable(&[run([100, 300, 200, 400])], 0));
        assert!(is_stable(&[run([300, 310, 320, 330])], 0));
        assert!(is_stable(&[run([100, 300, 500, 700]), run([100; 4])], 0));
    }

    #[test]
    fn with_idle_servers_the_backlog_must_be_a_share_of_the_queries() {
        let spare = || Tally { busy_ns: 98, capacity_ns: 100, ..run([100, 300, 500, 700]) };
        assert!(!is_stable(&[spare()], 0));
        let mut many = spare();
        many.queries.record_n(1, 30_000).expect("in range");
        assert!(is_stable(&[many], 0), "600 of 30,000 are not above 2 %");
        assert!(is_stable(&[spare()], 1_000), "all of them may have a slot");
    }

    #[test]
    fn a_full_queue_is_unstable_whatever_the_rest() {
        let experiment = Parameters::default().experiment().expect("an experiment");
        let calm = || run([100; 4]);
        let judged = |run: Tally| judge(&experiment, PSQ, &[run, calm(), calm()]);
        assert_eq!(
            judged(Tally { queue_full: true, overflowed: true, ..calm() }),
            Some(Unstable::QueueFull)
        );
        assert_eq!(judged(Tally { overflowed: true, ..calm() }), Some(Unstable::TooManyOpen));
        assert_eq!(judged(calm()), None);
        let growing = [run([100, 300, 500, 700])];
        assert_eq!(judge(&experiment, PSQ, &growing), Some(Unstable::Growth));
    }
}
