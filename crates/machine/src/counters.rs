//! The kernel's counters for a process: how often, and for how long, it was not running.

use serde::{Deserialize, Serialize};

/// Kernel counters, summed over all threads of a process since it started. Counters that the system
/// does not provide are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// The number of times that a thread blocked (waited for something).
    pub voluntary_switches: u64,
    /// The number of times that a thread was preempted.
    pub involuntary_switches: u64,
    /// The time that the threads spent on a processor, in nanoseconds.
    pub ran_ns: u64,
    /// The time that the threads spent in the run queue, in nanoseconds.
    pub run_delay_ns: u64,
    /// The time for which the control group was throttled because its quota was exhausted, in
    /// nanoseconds.
    pub throttled_ns: u64,
    /// The number of page faults that read from disk.
    pub major_faults: u64,
    /// The time for which the process was stopped by a signal, in nanoseconds, estimated from
    /// samples.
    pub stopped_ns: u64,
}

impl Counters {
    /// Returns the difference from an earlier sample.
    pub fn since(&self, before: &Counters) -> Counters {
        let of = |part: fn(&Counters) -> u64| part(self).saturating_sub(part(before));
        Counters {
            voluntary_switches: of(|of| of.voluntary_switches),
            involuntary_switches: of(|of| of.involuntary_switches),
            ran_ns: of(|of| of.ran_ns),
            run_delay_ns: of(|of| of.run_delay_ns),
            throttled_ns: of(|of| of.throttled_ns),
            major_faults: of(|of| of.major_faults),
            stopped_ns: of(|of| of.stopped_ns),
        }
    }

    /// Adds a thread's `schedstat`: nanoseconds on a processor, nanoseconds in the run queue, and
    /// the number of time slices.
    pub(super) fn add_schedstat(&mut self, text: &str) {
        let mut fields = text.split_ascii_whitespace().map(number);
        self.ran_ns += fields.next().unwrap_or(0);
        self.run_delay_ns += fields.next().unwrap_or(0);
    }

    /// Adds a thread's `status`, or a control group's `cpu.stat` of version 2 (`throttled_usec`) or
    /// 1 (`throttled_time`, in nanoseconds). Returns whether the thread is stopped.
    pub(super) fn add_lines(&mut self, text: &str) -> bool {
        let mut stopped = false;
        for line in text.lines() {
            let Some((name, value)) = line.split_once([':', ' ']) else { continue };
            match name {
                "State" => stopped = value.trim_start().starts_with('T'),
                "voluntary_ctxt_switches" => self.voluntary_switches += number(value),
                "nonvoluntary_ctxt_switches" => self.involuntary_switches += number(value),
                "throttled_usec" => self.throttled_ns += 1_000 * number(value),
                "throttled_time" => self.throttled_ns += number(value),
                _ => {}
            }
        }
        stopped
    }

    /// Adds a process's `stat`: the 12th field counts the major page faults of all its threads.
    pub(super) fn add_stat(&mut self, text: &str) {
        // The parenthesized name may contain spaces and parentheses.
        let fields = text.rsplit_once(") ").map_or("", |(_, fields)| fields);
        self.major_faults += fields.split(' ').nth(9).map_or(0, number);
    }
}

/// Parses a number. A malformed number counts as 0. The value is capped to prevent overflow, but no
/// real counter reaches the cap.
fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or(0).min(u64::MAX >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_parsed() {
        let mut counters = Counters::default();
        ["1200 300 7\n", "1 2 3", "", "x 0"].iter().for_each(|text| counters.add_schedstat(text));
        let status = "Name:\tleaf: 7\nState:\tS (sleeping)\nvoluntary_ctxt_switches:\t11\n\
                      nonvoluntary_ctxt_switches:\t4\n";
        assert!(!counters.add_lines(status));
        assert!(counters.add_lines("State:\tT (stopped)\nvoluntary_ctxt_switches:\tmany\n"));
        assert!(!counters.add_lines("nr_periods 5\nnr_throttled 2\nthrottled_time 84000000\n"));
        let stat = "7 (a leaf) S) S 1 7 7 0 -1 4194560 311 0 42 0 9 3 0 0 20 0 1 0 88 1 2\n";
        [stat, "7 (leaf) S", ""].iter().for_each(|text| counters.add_stat(text));
        let expected = Counters {
            voluntary_switches: 11,
            involuntary_switches: 4,
            ran_ns: 1_201,
            run_delay_ns: 302,
            throttled_ns: 84_000_000,
            major_faults: 42,
            stopped_ns: 0,
        };
        assert_eq!(counters, expected);
        counters.add_lines("usage_usec 5\nthrottled_usec 20\n");
        assert_eq!(counters.throttled_ns, 84_020_000);
    }

    #[test]
    fn counts_never_decrease() {
        // When a thread exits, its counts disappear from the sum.
        let before = Counters { ran_ns: 5, voluntary_switches: 2, ..Counters::default() };
        let after = Counters { ran_ns: 3, voluntary_switches: 4, ..Counters::default() };
        let expected = Counters { voluntary_switches: 2, ..Counters::default() };
        assert_eq!(after.since(&before), expected);
    }
}
