//! The same service, simulated: as it is described, and with the measured overhead.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::estimate::mean_ms;
use super::rule::Estimate;
use super::samples::Samples;
use super::service::{self, PERCENTILES, Size};
use crate::eval::sim::{Outcome, Simulator};

/// What a simulation tells of a policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) latencies: Latencies,
    /// Per query; none where it is unstable.
    pub(super) copies: Option<f64>,
}

/// The percentiles of a policy.
pub(super) type Latencies = [Option<Estimate>; PERCENTILES.len()];

/// The simulator of the service.
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

    /// Each policy at a load, as the service is described.
    pub(super) fn plain(&self, policies: &[&str], load: f64) -> Result<Vec<Told>> {
        eprintln!("simulating {}", service::percent(load));
        let outcomes = self.simulator.at(load, policies, &["--jitter", &self.jitter])?;
        let told = |outcome: &Outcome| Told {
            latencies: read(outcome, 0.0),
            copies: outcome.number("/copies_per_query").ok(),
        };
        Ok(outcomes.iter().map(told).collect())
    }

    /// A policy at a load, with the overhead that was measured there.
    pub(super) fn with_overhead(
        &self,
        out: &Path,
        policy: &str,
        load: f64,
        samples: &Samples,
    ) -> Result<Latencies> {
        eprintln!("simulating {policy} at {} with overhead", service::percent(load));
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
        Ok(read(outcome, mean_ms(&samples.front)))
    }
}

/// The percentiles, moved by what the simulator has no place for. None where it is unstable.
fn read(outcome: &Outcome, front_ms: f64) -> Latencies {
    PERCENTILES.map(|percentile| {
        let name = service::name(percentile);
        let value = outcome.number(&format!("/request/{name}")).ok()?;
        let half = outcome.number(&format!("/ci95/{name}")).ok();
        Some(Estimate { value: value + front_ms, half })
    })
}
