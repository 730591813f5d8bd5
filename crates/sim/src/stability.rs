//! Does a run reach a steady state?
//!
//! Unstable is a run whose queues overflowed, or whose backlog grew from quarter to quarter of the
//! measured time, while the servers had no time to spare or so much that some of the queries were
//! left over. Growth alone is not enough: at high load a stable backlog swings. Full servers alone
//! are not, either: a policy that fills idle servers with second copies keeps them busy at any load.
//! Nor must they be full: slots are held while the network is at work, and servers may be down.
//!
//! Where more work comes than all servers can do, however it is done, no run needs to tell: one that is
//! short may look stable.

use serde::Serialize;

use crate::arrivals::Arrivals;
use crate::experiment::Experiment;
use crate::tally::Tally;

/// The growth from one quarter to the next that counts: where a backlog grows steadily from
/// nothing, it is 5/3, then 7/5.
const GROWTH: f64 = 1.2;

/// Servers that are busy for a larger share of the time have none to spare.
const FULL: f64 = 0.99;

/// A backlog that grew by a larger share of the queries does not come from swings. It must be larger
/// than what all slots hold, though: a run that is shorter than a service only fills them.
const LEFT_OVER: f64 = 0.02;

/// Why an experiment has no steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unstable {
    /// First copies alone are more work than the servers can do.
    Overload,
    /// More queries waited in a shard than may.
    QueueFull,
    /// More requests were open at once than there is room for.
    TooManyOpen,
    /// The backlog grew from quarter to quarter.
    Growth,
}

/// Why the runs of an experiment say that it has no steady state; none where it has one.
pub(crate) fn judge(experiment: &Experiment, runs: &[Tally]) -> Option<Unstable> {
    if is_overloaded(experiment) {
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

/// Does more work come than the servers can do? At the least, every query takes its own service time
/// once. Exactly as much leaves no time to catch up after a burst.
fn is_overloaded(experiment: &Experiment) -> bool {
    let Experiment { service, slowdown, outages, arrivals, .. } = experiment;
    // Slow stretches may be fast ones, and a server that fails loses its work.
    if slowdown.is_some() || outages.is_some() {
        return false;
    }
    let load = service.mean() / experiment.capacity() / experiment.gap_ns();
    let most = if *arrivals == Arrivals::Deterministic { 1.0 + ROUNDING } else { 1.0 - ROUNDING };
    load > most
}

/// What a load may be off by.
const ROUNDING: f64 = 1e-9;

/// More than half of the runs must be unstable for the whole to be. There are so many slots in all.
fn is_stable(runs: &[Tally], slots: u64) -> bool {
    let unstable = runs.iter().filter(|run| grows(run, slots)).count();
    unstable * 2 <= runs.len()
}

/// Does the backlog of a run grow without end?
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
            is_overloaded(&parameters.experiment().expect("an experiment"))
        };
        assert!(overloaded(1.0, "poisson", &[]) && overloaded(1.3, "deterministic", &[]));
        assert!(overloaded(1.0, "poisson", &[1.0, 0.5]));
        assert!(!overloaded(0.999, "poisson", &[]) && !overloaded(1.0, "deterministic", &[]));
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
        let judged = |run: Tally| judge(&experiment, &[run, calm(), calm()]);
        assert_eq!(
            judged(Tally { queue_full: true, overflowed: true, ..calm() }),
            Some(Unstable::QueueFull)
        );
        assert_eq!(judged(Tally { overflowed: true, ..calm() }), Some(Unstable::TooManyOpen));
        assert_eq!(judged(calm()), None);
        let growing = [run([100, 300, 500, 700])];
        assert_eq!(judge(&experiment, &growing), Some(Unstable::Growth));
    }
}
