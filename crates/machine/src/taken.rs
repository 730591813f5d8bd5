//! The share of a machine's processors that other processes and the hypervisor took. Linux only.
//!
//! The sources are `/proc/stat` (time of all processors, including stolen time), `/proc/PID/stat`
//! (own time), and, if the kernel counts it, `/proc/pressure/cpu` (the time in which at least one
//! task was ready to run but had no processor). The pressure shows whether other processes
//! interfere or the machine has enough processors for all.
//!
//! Cost: a few file reads, tens of microseconds.

use std::fmt;
use std::fs;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// The length of a tick in these files. It is the same on every architecture.
const TICK_NS: u64 = 10_000_000;
/// The minimum number of ticks for a meaningful share.
const TICKS_MIN: u64 = 100;
/// The smallest share of stolen time that distorts a measurement. The hypervisor delays all threads
/// on a processor that it takes.
const STOLEN_MUCH: f64 = 0.02;
/// Other processes interfere if both their own share and the share of time in which tasks wait for
/// a processor reach these limits.
const OTHERS_MUCH: f64 = 0.1;
const STALLED_MUCH: f64 = 0.05;

/// The values of the counters, counted since boot, at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    at: Instant,
    ticks: Ticks,
    own: u64,
    stalled_us: Option<u64>,
}

/// The time of all processors, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Ticks {
    all: u64,
    busy: u64,
    stolen: u64,
}

impl Reading {
    /// Reads the counters. `None` on other systems. Own time includes this process, the children
    /// that it has waited for, and the `own` processes.
    pub fn take(own: &[u32]) -> Option<Reading> {
        let ticks = ticks(&fs::read_to_string("/proc/stat").ok()?)?;
        let process = |name: &str| fs::read_to_string(format!("/proc/{name}/stat")).ok();
        let this: u64 = times(&process("self")?).iter().sum();
        // The counters of a process disappear when it ends.
        let of =
            |id: &u32| process(&id.to_string()).map_or(0, |text| times(&text)[..2].iter().sum());
        let others: u64 = own.iter().map(of).sum();
        let stalled_us =
            fs::read_to_string("/proc/pressure/cpu").ok().and_then(|text| stalled(&text));
        Some(Reading { at: Instant::now(), ticks, own: this + others, stalled_us })
    }

    /// Returns the time that the hypervisor has taken from all processors since boot, in
    /// nanoseconds.
    pub fn stolen_ns(&self) -> u64 {
        self.ticks.stolen * TICK_NS
    }

    /// Returns the shares of processor time that others took since `earlier`, which must cover the
    /// same processes. `None` if there are too few ticks between the two readings.
    pub fn since(&self, before: &Reading) -> Option<Taken> {
        let of = |part: fn(&Ticks) -> u64| part(&self.ticks).saturating_sub(part(&before.ticks));
        let all = of(|ticks| ticks.all);
        let share = |ticks: u64| (ticks as f64 / all as f64).min(1.0);
        let own = self.own.saturating_sub(before.own);
        let elapsed_us = self.at.saturating_duration_since(before.at).as_micros() as f64;
        let stalled = self.stalled_us.zip(before.stalled_us);
        let stalled = stalled.map(|(now, then)| now.saturating_sub(then) as f64 / elapsed_us);
        (all >= TICKS_MIN).then(|| Taken {
            others: share(of(|ticks| ticks.busy).saturating_sub(own)),
            stolen: share(of(|ticks| ticks.stolen)),
            stalled: stalled.filter(|share| share.is_finite()).map(|share| share.min(1.0)),
        })
    }
}

/// Shares of the total time of all processors, from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// The share that all processes except our own took.
    pub others: f64,
    /// The share that the hypervisor took.
    pub stolen: f64,
    /// The share of time in which at least one task, ours or not, waited for a processor. `None` if
    /// unknown.
    pub stalled: Option<f64>,
}

impl Taken {
    /// Whether others took enough processor time to distort a measurement made in this period.
    pub fn is_much(&self) -> bool {
        let waited = self.stalled.is_none_or(|share| share >= STALLED_MUCH);
        self.stolen >= STOLEN_MUCH || (self.others >= OTHERS_MUCH && waited)
    }

    /// Returns the sum of both shares.
    pub fn sum(&self) -> f64 {
        self.others + self.stolen
    }
}

/// `other processes took 83 % of its processors and the hypervisor 3 %`.
impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "other processes took {:.0} % of its processors", self.others * 100.0)?;
        if self.stolen >= 0.005 {
            write!(f, " and the hypervisor {:.0} %", self.stolen * 100.0)?;
        }
        Ok(())
    }
}

/// Parses the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
/// User time includes guests.
fn ticks(text: &str) -> Option<Ticks> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let all: Vec<u64> = line.split_whitespace().take(8).map_while(|of| of.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, stolen] = all.try_into().ok()?;
    let busy = user + nice + system + irq + softirq;
    Some(Ticks { all: busy + idle + iowait + stolen, busy, stolen })
}

/// Parses a process's `stat`: its user and system time, and those of the children that it has
/// waited for.
fn times(text: &str) -> [u64; 4] {
    // The parenthesized name may contain spaces and parentheses.
    let fields = text.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let mut times = fields.split(' ').skip(11).map(|field| field.parse().unwrap_or(0));
    std::array::from_fn(|_| times.next().unwrap_or(0))
}

/// Parses the line `some` of `/proc/pressure/cpu`: microseconds since boot.
fn stalled(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split(' ').find_map(|field| field.strip_prefix("total="))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn files_of_the_kernel_are_parsed() {
        let stat = "cpu  100 5 30 800 20 3 2 40 7 0\ncpu0 50 2 15 400 10 1 1 20 3 0\n";
        assert_eq!(ticks(stat), Some(Ticks { all: 1_000, busy: 140, stolen: 40 }));
        assert_eq!((ticks(""), ticks("cpu  1 2 3\n"), ticks("cpu  a\n")), (None, None, None));
        let stat = "7 (a leaf) S) S 1 7 7 0 -1 4194560 311 0 42 0 9 3 11 2 20 0 1 0 88 1 2\n";
        assert_eq!(times(stat), [9, 3, 11, 2]);
        assert_eq!(times("7 (leaf) S"), [0; 4]);
        let pressure =
            "some avg10=0.00 avg60=1.00 avg300=0.19 total=7654321\nfull avg10=0.00 total=1\n";
        assert_eq!(stalled(pressure), Some(7_654_321));
        assert_eq!(stalled("full avg10=0.00 total=1\n"), None);
    }

    fn reading(
        at: Instant,
        all: u64,
        busy: u64,
        stolen: u64,
        own: u64,
        stalled_us: u64,
    ) -> Reading {
        Reading { at, ticks: Ticks { all, busy, stolen }, own, stalled_us: Some(stalled_us) }
    }

    #[test]
    fn shares_cover_all_processors_and_exclude_own_time() {
        let start = Instant::now();
        let before = reading(start, 1_000, 500, 10, 100, 5);
        // The two readings are ten seconds apart, on a machine with two processors.
        let after = reading(start + Duration::from_secs(10), 3_000, 1_700, 70, 500, 2_500_005);
        let taken = after.since(&before).expect("enough ticks");
        assert_eq!(taken, Taken { others: 0.4, stolen: 0.03, stalled: Some(0.25) });
        let text = "other processes took 40 % of its processors and the hypervisor 3 %";
        assert_eq!(taken.to_string(), text);
        assert_eq!(reading(start, 1_050, 550, 10, 100, 5).since(&before), None, "too short");
        // The counters of a process that has ended are gone.
        let fewer = reading(start + Duration::from_secs(10), 3_000, 1_700, 10, 0, 5);
        assert_eq!(fewer.since(&before).expect("enough ticks").others, 0.6);
    }

    #[test]
    fn other_processes_interfere_if_tasks_wait_for_a_processor() {
        let much = |others, stolen, stalled| Taken { others, stolen, stalled }.is_much();
        assert!(much(0.5, 0.0, Some(0.3)) && much(0.5, 0.0, None) && much(0.0, 0.03, Some(0.0)));
        assert!(!much(0.5, 0.0, Some(0.01)), "a large machine has processors for all");
        assert!(!much(0.05, 0.01, Some(0.3)), "own processes wait for each other");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_counters() {
        let reading = Reading::take(&[std::process::id(), u32::MAX]).expect("Linux");
        assert!(reading.ticks.all > 0 && reading.ticks.all >= reading.ticks.busy);
    }
}
