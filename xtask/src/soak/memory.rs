//! Checks that the proxy's memory stays flat.

use std::fmt;
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;

/// Growth that does not count as a leak, because allocators keep memory that they once needed and
/// because memory use varies between runs.
const SLACK_BYTES: u64 = 8 << 20;
const SLACK_SHARE: f64 = 0.15;

/// The interval between samples, in a run that is long enough.
const EVERY: Duration = Duration::from_millis(250);

/// The minimum number of samples in a shorter run, so that there are both early and late samples.
const SAMPLES_MIN: u32 = 16;

/// The time of the sample, as a share of the run's length, and the resident memory at that time.
/// `None` if the memory could not be read.
pub(super) type Sample = (f64, Option<u64>);

/// The proxy's resident memory, early and late. 0 if a sample of that period is missing.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    /// The largest sample between a quarter and a half of the run.
    early_bytes: u64,
    /// The largest sample in the last quarter.
    late_bytes: u64,
}

/// Samples a process for this length of time on a new thread.
pub(super) fn watch(process: u32, length: Duration) -> JoinHandle<Vec<Sample>> {
    std::thread::spawn(move || {
        let every = EVERY.min(length / SAMPLES_MIN).max(Duration::from_millis(1));
        let (mut samples, mut at) = (Vec::new(), Duration::ZERO);
        while at < length {
            samples.push((at.as_secs_f64() / length.as_secs_f64(), resident(process)));
            std::thread::sleep(every);
            at += every;
        }
        samples
    })
}

/// Returns the resident memory from `/proc`. `None` if there is no `/proc` or no such process.
pub(super) fn resident(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

impl Memory {
    pub(super) fn of(samples: &[Sample]) -> Self {
        let largest = |from: f64, to: f64| {
            let all = samples.iter().filter(|(at, _)| (from..to).contains(at));
            let all: Option<Vec<u64>> = all.map(|(_, bytes)| *bytes).collect();
            all.and_then(|all| all.into_iter().max()).unwrap_or(0)
        };
        Self { early_bytes: largest(0.25, 0.5), late_bytes: largest(0.75, f64::INFINITY) }
    }

    /// Whether the memory is flat. Memory that was not sampled throughout does not count as flat.
    pub(super) fn is_flat(&self) -> bool {
        let allowed = self.early_bytes as f64 * (1.0 + SLACK_SHARE) + SLACK_BYTES as f64;
        self.was_sampled() && (self.late_bytes as f64) <= allowed
    }

    fn was_sampled(&self) -> bool {
        self.early_bytes > 0 && self.late_bytes > 0
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let verdict = if self.is_flat() { "flat" } else { "NOT flat" };
        let (early, late) = (mib(self.early_bytes), mib(self.late_bytes));
        match self.was_sampled() {
            false => write!(
                f,
                "memory: NOT KNOWN to be flat, because it could not be sampled throughout"
            ),
            true => write!(f, "memory: {verdict}, {early:.1} MiB early, {late:.1} MiB late"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Option<u64> = Some(10 << 20);

    #[test]
    fn memory_is_flat_if_it_was_sampled_and_grows_within_the_slack() {
        let grown = |mib: u64| [(0.1, TEN), (0.3, Some(100 << 20)), (0.9, Some(mib << 20))];
        for (samples, verdict) in [
            (&grown(122)[..], "memory: flat, 100.0 MiB early, 122.0 MiB late"),
            (&grown(124), "memory: NOT flat, 100.0 MiB early, 124.0 MiB late"),
            (&[], "NOT KNOWN"),
            (&[(0.1, TEN), (0.9, TEN)], "NOT KNOWN"),
            (&[(0.3, TEN), (0.6, TEN)], "NOT KNOWN"),
            (&[(0.3, TEN), (0.4, None), (0.9, TEN)], "NOT KNOWN"),
            (&[(0.3, TEN), (0.9, TEN), (1.0, None)], "NOT KNOWN"),
        ] {
            let memory = Memory::of(samples);
            assert!(memory.to_string().contains(verdict), "{memory}");
            assert_eq!(memory.is_flat(), verdict.starts_with("memory: flat"), "{memory}");
        }
    }

    #[test]
    fn a_process_is_sampled_early_and_late_however_short_the_run() {
        if cfg!(target_os = "linux") {
            let samples = watch(std::process::id(), Duration::from_millis(200)).join();
            let memory = Memory::of(&samples.expect("it ends"));
            assert!(memory.was_sampled(), "{memory:?}");
        }
    }
}
