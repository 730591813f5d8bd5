//! The same service, simulated: as it is described, and with the overhead that was measured.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::service::{self, Size, percent};
use crate::eval::search::estimate::mean_ms;
use crate::eval::search::rule::Estimate;
use crate::eval::search::samples::Samples;
use crate::eval::sim::{Outcome, Simulator};

pub(super) struct Simulated {
    simulator: Simulator,
    jitter: String,
}

impl Simulated {
    pub(super) fn new(root: &Path, size: Size) -> Result<Self> {
        let flags = service::sim_flags(size);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Ok(Self { simulator: Simulator::new(root, &flags)?, jitter: size.jitter() })
    }

    /// The p99 of a policy at a load, in ms, as the service is described. None where it is unstable.
    pub(super) fn plain(&self, policy: &str, load: f64) -> Result<Option<Estimate>> {
        eprintln!("simulating {policy} at {}", percent(load));
        let outcomes = self.simulator.at(load, &[policy], &["--jitter", &self.jitter])?;
        Ok(p99(outcomes.first().context("sim prints an entry")?, 0.0))
    }

    /// The same with the overhead that was measured there; none without a sound run. What a leaf is
    /// late occupies it, the network occupies a slot, and what client and root add nothing.
    pub(super) fn with_overhead(
        &self,
        out: &Path,
        policy: &str,
        load: f64,
        samples: &Samples,
    ) -> Result<Option<Estimate>> {
        if samples.latency.is_empty() {
            return Ok(None);
        }
        eprintln!("simulating {policy} at {} with overhead", percent(load));
        let write = |what: &str, samples: &mut dyn Iterator<Item = u64>| -> Result<String> {
            let file = out.join(format!("{what}-{policy}-{load}.txt"));
            let mut text = String::new();
            for ns in samples {
                let _ = writeln!(text, "{ns}ns");
            }
            std::fs::write(&file, text).with_context(|| file.display().to_string())?;
            Ok(format!("file:{}", file.display()))
        };
        // Nobody knows how much of it was on the way there: half of it, on average.
        let network = write("network", &mut samples.network.iter().map(|both_ways| both_ways / 2))?;
        let late = write("late", &mut samples.late.iter().copied())?;
        let jitter = format!("{}+{late}", self.jitter);
        let flags = ["--jitter", &jitter, "--network", &network];
        let outcomes = self.simulator.at(load, &[policy], &flags)?;
        let outcome = outcomes.first().context("sim prints an entry")?;
        Ok(p99(outcome, mean_ms(&samples.front)))
    }
}

/// Moved by what the simulator has no place for.
fn p99(outcome: &Outcome, front_ms: f64) -> Option<Estimate> {
    let value = outcome.p99().ok()?;
    Some(Estimate { value: value + front_ms, half: outcome.number("/ci95/p99").ok() })
}
