//! Ten minutes of faults.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::accept::finding::Finding;
use crate::cargo::{self, Profile};
use crate::soak::POLICIES;
use crate::tied::tied;

const MINUTES: f64 = 10.0;

pub(super) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let curtail = cargo::curtail(root, Profile::Release)?;
    let minutes = (MINUTES / POLICIES.len() as f64).to_string();
    POLICIES
        .iter()
        .map(|policy| {
            let mut command = tied(&curtail, None);
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
    // The soak passes where it has nothing to compare: it may be short. This one is not.
    let sampled = |bytes: &Value| bytes.as_u64().is_some_and(|bytes| bytes > 0);
    let both = sampled(&memory["early_bytes"]) && sampled(&memory["late_bytes"]);
    let memory = if both {
        let mib = |bytes: &Value| bytes.as_f64().unwrap_or(f64::NAN) / f64::from(1 << 20);
        format!("{:.1} → {:.1} MiB", mib(&memory["early_bytes"]), mib(&memory["late_bytes"]))
    } else {
        "could not be sampled both early and late".into()
    };
    let slots = soaked["leaked"].as_str().unwrap_or("all slots free");
    Finding::new(
        format!("soak, {policy}: nothing unanswered, no slot leaked, memory flat"),
        format!(
            "{} answered ({} with an error), {} left by their clients, {} unanswered under {} \
             kills, {} pauses, {} black holes; {slots}; memory {memory}",
            requests["answered"],
            requests["errors"],
            requests["aborted"],
            requests["unanswered"],
            faults["kills"],
            faults["pauses"],
            faults["black_holes"],
        ),
        soaked["passed"] == true && both,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::accept::finding::Verdict;

    fn soaked(passed: bool, memory: &Value) -> Finding {
        let requests = json!({"answered": 9, "errors": 0, "aborted": 0, "unanswered": 0});
        let faults = json!({"kills": 1, "pauses": 2, "black_holes": 3});
        let document =
            json!({"passed": passed, "requests": requests, "faults": faults, "memory": memory});
        finding("psq", &document)
    }

    #[test]
    fn memory_that_was_not_sampled_is_not_flat() {
        let memory = |early: u64, late: u64| json!({"early_bytes": early, "late_bytes": late});
        let good = soaked(true, &memory(8 << 20, 9 << 20));
        assert_eq!(good.verdict, Verdict::Holds);
        assert!(good.to_string().ends_with("all slots free; memory 8.0 → 9.0 MiB"), "{good}");
        for memory in [memory(0, 9 << 20), memory(8 << 20, 0), Value::Null] {
            let bad = soaked(true, &memory);
            assert_eq!(bad.verdict, Verdict::Broken, "{memory}");
            assert!(bad.to_string().ends_with("memory could not be sampled both early and late"));
        }
        assert_eq!(soaked(false, &memory(8 << 20, 9 << 20)).verdict, Verdict::Broken);
    }
}
