//! The likely cause of a hiccup: why the leaf was not running.
//!
//! A cause must account for at least half of the hiccup. The sampler reads the counters every few
//! milliseconds, not at the start and end of executions, so the counters include parts of
//! neighboring executions. The reported cause is therefore likely but not certain.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Counters;

/// The likely cause of a slow execution. Variants are ordered from most to least specific.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The process was stopped by a signal.
    Stopped,
    /// The control group had exhausted its quota.
    Throttled,
    /// The leaf waited in the run queue while other threads ran.
    RunQueue,
    /// The leaf seemed to run all the time. The cause is the query itself, garbage collection, or
    /// the hypervisor. The guest cannot see when the hypervisor takes the processor.
    Computing,
    /// The leaf read pages from disk.
    MajorFaults,
    /// The leaf waited for something else: a lock, a timer, a disk, the network.
    Waiting,
    /// There is no counter sample for the execution.
    Unknown,
}

impl Cause {
    /// Returns a short human-readable description.
    pub fn text(self) -> &'static str {
        match self {
            Cause::Stopped => "stopped by a signal",
            Cause::Throttled => "throttled by its control group",
            Cause::RunQueue => "waiting for a processor",
            Cause::MajorFaults => "reading pages from a disk",
            Cause::Computing => "on a processor all the time",
            Cause::Waiting => "waiting for something else",
            Cause::Unknown => "not sampled",
        }
    }
}

/// The numbers of hiccups by likely cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Causes(pub Vec<Likely>);

/// A cause and its number of hiccups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Likely {
    /// The cause.
    pub cause: Cause,
    /// The number of hiccups.
    pub hiccups: u64,
}

impl Causes {
    /// Counts the hiccups per cause, and returns the most frequent cause first.
    pub fn count(causes: impl IntoIterator<Item = Cause>) -> Causes {
        let mut counts = BTreeMap::<Cause, u64>::new();
        causes.into_iter().for_each(|cause| *counts.entry(cause).or_default() += 1);
        let found = counts.into_iter().map(|(cause, hiccups)| Likely { cause, hiccups });
        let mut found: Vec<Likely> = found.collect();
        found.sort_by_key(|likely| std::cmp::Reverse(likely.hiccups));
        Causes(found)
    }
}

/// Returns the likely cause of an execution that took `jitter_ns` longer than P, from the counters
/// during the execution.
pub fn likely(jitter_ns: u64, counted: Option<&Counters>) -> Cause {
    let Some(counted) = counted else { return Cause::Unknown };
    let half = jitter_ns / 2;
    let Counters { stopped_ns, throttled_ns, run_delay_ns, ran_ns, major_faults, .. } = *counted;
    match () {
        () if stopped_ns >= half => Cause::Stopped,
        () if throttled_ns >= half => Cause::Throttled,
        () if run_delay_ns >= half => Cause::RunQueue,
        () if ran_ns >= half => Cause::Computing,
        () if major_faults > 0 => Cause::MajorFaults,
        () => Cause::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_cause_accounts_for_half_of_a_hiccup() {
        let none = Counters::default();
        let cause = |counted: Counters| likely(20 * MS, Some(&counted));
        assert_eq!(cause(Counters { stopped_ns: 12 * MS, ..none }), Cause::Stopped);
        assert_eq!(cause(Counters { throttled_ns: 10 * MS, ..none }), Cause::Throttled);
        assert_eq!(cause(Counters { run_delay_ns: 19 * MS, ..none }), Cause::RunQueue);
        assert_eq!(cause(Counters { ran_ns: 18 * MS, ..none }), Cause::Computing);
        assert_eq!(cause(Counters { major_faults: 3, ran_ns: MS, ..none }), Cause::MajorFaults);
        assert_eq!(cause(Counters { run_delay_ns: MS, ran_ns: 2 * MS, ..none }), Cause::Waiting);
        assert_eq!(likely(20 * MS, None), Cause::Unknown);
    }

    #[test]
    fn causes_are_counted_most_frequent_first() {
        let counted = Causes::count([Cause::Waiting, Cause::Stopped, Cause::Stopped]);
        let likely = |cause, hiccups| Likely { cause, hiccups };
        assert_eq!(counted.0, [likely(Cause::Stopped, 2), likely(Cause::Waiting, 1)]);
    }
}
