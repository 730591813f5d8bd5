//! Is the proxy's memory flat?

use std::fmt;
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;

/// Growth that is no leak: allocators keep what they once needed, and runs differ.
const SLACK_BYTES: u64 = 8 << 20;
const SLACK_SHARE: f64 = 0.15;

/// From one sample to the next, in a run that is long enough.
const EVERY: Duration = Duration::from_millis(250);

/// A shorter run has as many samples as this, so that there are early and late ones.
const SAMPLES_MIN: u32 = 16;

/// The proxy's resident memory, early and late. 0 where it was not sampled.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    #[serde(skip)]
    process: Option<u32>,
    /// The largest seen between a quarter and a half of the run.
    pub(super) early_bytes: u64,
    /// The largest seen in the last quarter.
    pub(super) late_bytes: u64,
    /// A sample failed.
    #[serde(skip)]
    unreadable: bool,
}

/// Samples a process for so long, whatever else goes on.
pub(super) fn watch(process: u32, length: Duration) -> JoinHandle<Memory> {
    std::thread::spawn(move || {
        let mut memory = Memory::new(Some(process));
        let every = EVERY.min(length / SAMPLES_MIN).max(Duration::from_millis(1));
        let mut at = Duration::ZERO;
        while at < length {
            let now = memory.resident();
            memory.sample(at, length, now);
            std::thread::sleep(every);
            at += every;
        }
        memory
    })
}

impl Memory {
    fn new(process: Option<u32>) -> Self {
        Self { process, early_bytes: 0, late_bytes: 0, unreadable: false }
    }

    fn sample(&mut self, at: Duration, of: Duration, resident: Option<u64>) {
        let share = at.as_secs_f64() / of.as_secs_f64();
        let now = resident.unwrap_or(0);
        self.unreadable |= now == 0;
        if (0.25..0.5).contains(&share) {
            self.early_bytes = self.early_bytes.max(now);
        } else if share >= 0.75 {
            self.late_bytes = self.late_bytes.max(now);
        }
    }

    /// The last sample, once all is at rest.
    pub(super) fn finish(&mut self) {
        let now = self.resident();
        self.sample(Duration::from_secs(1), Duration::from_secs(1), now);
    }

    /// Memory that was not sampled is not known to be flat.
    pub(super) fn is_flat(&self) -> bool {
        let allowed = self.early_bytes as f64 * (1.0 + SLACK_SHARE) + SLACK_BYTES as f64;
        self.is_known() && (self.late_bytes as f64) <= allowed
    }

    fn is_known(&self) -> bool {
        !self.unreadable && self.early_bytes > 0 && self.late_bytes > 0
    }

    /// From `/proc`; none where there is none, or no such process.
    fn resident(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let verdict = if self.is_flat() { "flat" } else { "NOT flat" };
        let (early, late) = (mib(self.early_bytes), mib(self.late_bytes));
        match self.is_known() {
            false => write!(f, "memory: NOT KNOWN to be flat, it could not be sampled throughout"),
            true => write!(f, "memory: {verdict}, {early:.1} MiB early, {late:.1} MiB late"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Sampled at these shares of a run.
    fn sampled(samples: &[(f64, Option<u64>)]) -> Memory {
        let mut memory = Memory::new(None);
        for (share, mib) in samples {
            let bytes = mib.map(|mib| mib * MIB);
            memory.sample(Duration::from_secs_f64(*share), Duration::from_secs(1), bytes);
        }
        memory
    }

    #[test]
    fn growth_within_the_slack_is_flat() {
        let grown = |to| sampled(&[(0.1, Some(900)), (0.3, Some(100)), (0.9, Some(to))]);
        assert!(grown(122).is_flat(), "{}", grown(122));
        assert!(!grown(124).is_flat(), "{}", grown(124));
        assert!(grown(124).to_string().contains("NOT flat, 100.0 MiB early, 124.0 MiB late"));
    }

    #[test]
    fn memory_that_was_not_sampled_is_not_flat() {
        let unknown = [
            sampled(&[]),
            sampled(&[(0.1, Some(10)), (0.9, Some(10))]),
            sampled(&[(0.3, Some(10)), (0.6, Some(10))]),
            sampled(&[(0.3, Some(10)), (0.5, None), (0.9, Some(10))]),
            sampled(&[(0.3, Some(10)), (0.9, Some(10)), (1.0, None)]),
        ];
        for memory in unknown {
            assert!(!memory.is_flat(), "{memory:?}");
            assert!(memory.to_string().contains("NOT KNOWN"), "{memory}");
        }
        assert!(sampled(&[(0.3, Some(10)), (0.9, Some(10))]).is_flat());
    }

    #[test]
    fn a_process_is_sampled_early_and_late_however_short_the_run() {
        if cfg!(target_os = "linux") {
            let memory =
                watch(std::process::id(), Duration::from_millis(200)).join().expect("it ends");
            assert!(memory.is_known(), "{memory:?}");
        }
    }
}
