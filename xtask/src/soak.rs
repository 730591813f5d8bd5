//! `cargo xtask soak`: the proxy under faults.

use std::path::Path;

use anyhow::Result;

use crate::cargo::{self, Profile};
use crate::process::tied;

/// Those that share the time, if none are named: with and without cancellation, and with every kind
/// of gate.
pub(crate) const POLICIES: [&str; 4] = ["laedge", "psq", "laedge:cc+pc", "least-outstanding"];

/// Requests per second where the proxy is built for tests: few enough that it catches up at once
/// when a machine on which others compute has stood still for seconds. What piles up beyond the
/// queues is errors, and says nothing about faults.
const DEV_RATE: &str = "200";

/// Soaks under every policy in turn, for `minutes` in all; false if one of them fails.
pub(crate) fn run(
    root: &Path,
    profile: Profile,
    minutes: f64,
    policies: &[String],
) -> Result<bool> {
    let curtail = cargo::curtail(root, profile)?;
    let each = (minutes / policies.len() as f64).to_string();
    let mut passed = true;
    for policy in policies {
        let mut command = tied(&curtail);
        command.args(["soak", "--minutes", &each, "--policy", policy]);
        if profile == Profile::Dev {
            command.args(["--rate", DEV_RATE]);
        }
        passed &= cargo::succeeds(&mut command)?;
    }
    Ok(passed)
}
