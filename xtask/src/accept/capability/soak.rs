//! Ten minutes of faults.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::accept::finding::Finding;
use crate::cargo::{self, Profile};
use crate::soak::POLICIES;

const MINUTES: f64 = 10.0;

pub(super) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let curtail = cargo::curtail(root, Profile::Release)?;
    let minutes = (MINUTES / POLICIES.len() as f64).to_string();
    POLICIES
        .iter()
        .map(|policy| {
            let mut command = Command::new(&curtail);
            command.args(["soak", "--json", "--minutes", &minutes, "--policy", policy]);
            // Its exit code is its verdict, which its document gives, too.
            let output = command.output().context("curtail soak does not start")?;
            let said = String::from_utf8_lossy(&output.stderr);
            let document: Value = serde_json::from_slice(&output.stdout)
                .with_context(|| format!("curtail soak says nothing: {said}"))?;
            Ok(finding(policy, &document))
        })
        .collect()
}

fn finding(policy: &str, soaked: &Value) -> Finding {
    let (requests, faults, memory) = (&soaked["requests"], &soaked["faults"], &soaked["memory"]);
    let mib = |bytes: &Value| bytes.as_f64().unwrap_or(f64::NAN) / f64::from(1 << 20);
    let slots = soaked["leaked"].as_str().unwrap_or("all slots free");
    Finding::new(
        format!("soak, {policy}: nothing unanswered, no slot leaked, memory flat"),
        format!(
            "{} answered ({} with an error), {} left by their clients, {} unanswered under {} \
             kills, {} pauses, {} black holes; {slots}; memory {:.1} → {:.1} MiB",
            requests["answered"],
            requests["errors"],
            requests["aborted"],
            requests["unanswered"],
            faults["kills"],
            faults["pauses"],
            faults["black_holes"],
            mib(&memory["early_bytes"]),
            mib(&memory["late_bytes"]),
        ),
        soaked["passed"] == true,
    )
}
