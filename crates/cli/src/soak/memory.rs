//! Is the proxy's memory flat?

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// Growth that is no leak: allocators keep what they once needed, and runs differ.
const SLACK_BYTES: u64 = 8 << 20;
const SLACK_SHARE: f64 = 0.15;

/// The proxy's resident memory, early and late.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    #[serde(skip)]
    process: Option<u32>,
    /// The largest seen between a quarter and a half of the run.
    pub(super) early_bytes: u64,
    /// The largest seen in the last quarter.
    pub(super) late_bytes: u64,
}

impl Memory {
    pub(super) fn watch(process: Option<u32>) -> Self {
        Self { process, early_bytes: 0, late_bytes: 0 }
    }

    pub(super) fn sample(&mut self, at: Duration, of: Duration) {
        let share = at.as_secs_f64() / of.as_secs_f64();
        let now = self.resident();
        if (0.25..0.5).contains(&share) {
            self.early_bytes = self.early_bytes.max(now);
        } else if share >= 0.75 {
            self.late_bytes = self.late_bytes.max(now);
        }
    }

    pub(super) fn finish(&mut self) {
        self.late_bytes = self.late_bytes.max(self.resident());
    }

    /// In a run too short for an early sample there is nothing to compare.
    pub(super) fn is_flat(&self) -> bool {
        let allowed = self.early_bytes as f64 * (1.0 + SLACK_SHARE) + SLACK_BYTES as f64;
        self.early_bytes == 0 || (self.late_bytes as f64) <= allowed
    }

    /// From `/proc`; 0 where there is none.
    fn resident(&self) -> u64 {
        let Some(process) = self.process else { return 0 };
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let verdict = if self.is_flat() { "flat" } else { "NOT flat" };
        let (early, late) = (mib(self.early_bytes), mib(self.late_bytes));
        match self.early_bytes {
            0 => write!(f, "memory: SKIPPED, no early sample to compare with"),
            _ => write!(f, "memory: {verdict}, {early:.1} MiB early, {late:.1} MiB late"),
        }
    }
}
