//! Does a run reach a steady state?
//!
//! Unstable is a run whose queues overflowed, or whose backlog grew from quarter to quarter of the
//! measured time, while the servers had no time to spare or so much that some of the queries were
//! left over. Growth alone is not enough: at high load a stable backlog swings. Full servers alone
//! are not, either: a policy that fills idle servers with second copies keeps them busy at any load.
//! Nor must they be full: slots are held while the network is at work, and servers may be down.
//!
//! Where more work comes than all servers can do, no run needs to tell: one that is short may look
//! stable.

use curtail_dist::Distribution;
use curtail_kernel::{Core, HedgeSpec};
use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use crate::candidate::Candidate;
use crate::experiment::Experiment;
use crate::tally::Tally;
use curtail_dist::arrivals::Arrivals;

/// The growth from one quarter to the next that counts: where a backlog grows steadily from
/// nothing, it is 5/3, then 7/5.
const GROWTH: f64 = 1.2;

/// Servers that are busy for a larger share of the time have none to spare.
const FULL: f64 = 0.99;

/// A backlog that grew by a larger share of the queries does not come from swings. It must be larger
/// than what all slots hold, though: a run that is shorter than a service only fills them.
const LEFT_OVER: f64 = 0.02;

/// Why an experiment has no steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unstable {
    /// The copies that surely run to their end are more work than the servers can do.
    Overload,
    /// More queries waited in a shard than may, or copies at its servers.
    QueueFull,
    /// More requests were open at once than there is room for.
    TooManyOpen,
    /// The backlog grew from quarter to quarter.
    Growth,
}

impl Unstable {
    /// Its name for programs, and what people read.
    #[must_use]
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Overload => ("overload", "more work comes than the replicas can do"),
            Self::QueueFull => ("queue-full", "a shard's queue was full; see --queue"),
            Self::TooManyOpen => {
                ("too-many-open", "more requests are open at once than there is room for")
            }
            Self::Growth => ("growth", "queues grow without end"),
        }
    }
}

impl Serialize for Unstable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, text) = self.words();
        let mut verdict = serializer.serialize_struct("Unstable", 2)?;
        verdict.serialize_field("kind", kind)?;
        verdict.serialize_field("text", text)?;
        verdict.end()
    }
}

/// Why the runs of an experiment say that it has no steady state; none where it has one.
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

/// Does more work come than the servers can do, before a change or after it?
fn is_overloaded(experiment: &Experiment, candidate: Candidate) -> bool {
    let is_met = experiment.change.as_ref().is_none_or(|change| change.at > 0);
    (is_met && overloads(experiment, candidate))
        || experiment.after().is_some_and(|after| overloads(&after, candidate))
}

/// Does more work come than the servers can do? Exactly as much leaves no time to catch up after a
/// burst.
fn overloads(experiment: &Experiment, candidate: Candidate) -> bool {
    let Experiment { slowdown, outages, arrivals, .. } = experiment;
    // Slow stretches may be fast ones, and a server that fails loses its work.
    if slowdown.is_some() || outages.is_some() {
        return false;
    }
    let load = least_work(experiment, candidate) / experiment.capacity() / experiment.gap_ns();
    let most = if *arrivals == Arrivals::Constant { 1.0 + ROUNDING } else { 1.0 - ROUNDING };
    load > most
}

/// What a query takes of servers that have no time to spare, at the least and on average: its own
/// service time and the jitter, of each copy that it has in any case. Policies that give second copies
/// to idle servers only start none then; others may stop a copy for the sake of one without jitter.
fn least_work(experiment: &Experiment, candidate: Candidate) -> f64 {
    let service = experiment.service.mean();
    let servers = experiment.servers.len().min(MOST_COPIES);
    let copies = match candidate {
        Candidate::O1 => return service,
        Candidate::Policy(policy) if policy.needs_cancellation() && !policy.pulls() => {
            return service;
        }
        // Behind a narrow gate there is room for a query's other copies only while nothing waits.
        Candidate::Policy(policy) if !policy.pulls() => match policy.hedge() {
            Some(HedgeSpec::Naive(_)) => servers.min(2),
            Some(HedgeSpec::Clone(_)) => servers,
            _ => 1,
        },
        Candidate::Policy(_)
        | Candidate::Idealized
        | Candidate::Oracle
        | Candidate::Trained { .. } => 1,
    };
    copies as f64 * (service + experiment.jitter.as_ref().map_or(0.0, Distribution::mean))
}

const MOST_COPIES: usize = Core::MOST_COPIES as usize;

const ROUNDING: f64 = 1e-9;

/// More than half of the runs must be unstable for the whole to be. There are so many slots in all.
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
        // With 15 % of jitter.
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
    fn where_servers_have_time_the_backlog_must_be_some_of_the_queries() {
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
