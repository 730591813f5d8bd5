//! The proxy beside others.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::accept::finding::{Finding, Verdict};

pub(super) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let program = std::env::current_exe().context("this program has no name")?;
    let mut command = Command::new(program);
    command.args(["bench", "proxy", "--json", "--install"]).current_dir(root);
    let output = command.stderr(Stdio::inherit()).output().context("it does not start")?;
    let document: Value = serde_json::from_slice(&output.stdout).context("no figures")?;
    let mut findings: Vec<Finding> = list(&document["loads"]).iter().map(finding).collect();
    for skipped in list(&document["skipped"]) {
        let claim = format!("as good as {}", skipped.as_str().unwrap_or_default());
        findings.push(Finding::new(claim, "it is not installed", Verdict::Skipped));
    }
    Ok(findings)
}

fn finding(load: &Value) -> Finding {
    let proxies = list(&load["proxies"]).iter().map(|proxy| {
        let (p99, cpu) = (&proxy["p99_ms"], &proxy["cpu_us_per_request"]);
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        format!(
            "{} {:.2} ms ({:.2} – {:.2}), {:.0} µs CPU per request",
            proxy["proxy"].as_str().unwrap_or("?"),
            number(&p99["median"]),
            number(&p99["min"]),
            number(&p99["max"]),
            number(&cpu["median"]),
        )
    });
    let proxies: Vec<String> = proxies.collect();
    Finding::new(
        format!("p99 beside HAProxy's and Envoy's at a load of {}", load["load"]),
        format!("{}; {}", load["verdict"].as_str().unwrap_or("none"), proxies.join("; ")),
        load["holds"] == true,
    )
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
