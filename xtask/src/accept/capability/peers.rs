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
    anyhow::ensure!(!list(&document["loads"]).is_empty(), "no figures at any load");
    Ok(findings(&document))
}

/// Of the document of the bench: a finding per load, and one per peer that did not run.
fn findings(document: &Value) -> Vec<Finding> {
    let peers = peers(document);
    let mut findings: Vec<Finding> =
        list(&document["loads"]).iter().map(|load| finding(load, &peers)).collect();
    for skipped in list(&document["skipped"]) {
        let claim = format!("as good as {}", skipped.as_str().unwrap_or_default());
        findings.push(Finding::new(claim, "it is not installed", Verdict::Skipped));
    }
    findings
}

/// Those that ran: `haproxy's and envoy's`. We are the first of all.
fn peers(document: &Value) -> String {
    let peers = list(&document["proxies"]).iter().skip(1);
    let names = peers.map(|peer| format!("{}'s", peer["proxy"].as_str().unwrap_or("?")));
    names.collect::<Vec<_>>().join(" and ")
}

fn finding(load: &Value, peers: &str) -> Finding {
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
    let notes = list(&load["notes"]).iter().filter_map(Value::as_str).map(str::to_owned);
    let told: Vec<String> = notes.chain(proxies).collect();
    Finding::new(
        format!("p99 beside {peers} at a load of {}", load["load"]),
        format!("{}; {}", load["verdict"].as_str().unwrap_or("none"), told.join("; ")),
        load["holds"] == true,
    )
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_claim_names_the_peers_that_ran() {
        let document = |proxies: &[&str], skipped: &[&str]| {
            let proxies: Vec<Value> =
                proxies.iter().map(|proxy| json!({"proxy": proxy, "version": "1"})).collect();
            let loads = json!([{"load": 0.3, "holds": true, "verdict": "it holds",
                                "notes": ["1 of 8 rounds do not count"]}]);
            json!({"proxies": proxies, "skipped": skipped, "loads": loads})
        };
        let told = |document: &Value| -> Vec<String> {
            findings(document).iter().map(ToString::to_string).collect()
        };
        let both = told(&document(&["curtail", "haproxy", "envoy"], &[]));
        assert_eq!(both.len(), 1);
        let claim = "holds    p99 beside haproxy's and envoy's at a load of 0.3: it holds; 1 of \
                     8 rounds do not count";
        assert!(both[0].starts_with(claim), "{both:?}");
        let one = told(&document(&["curtail", "envoy"], &["haproxy"]));
        assert!(one[0].starts_with("holds    p99 beside envoy's at a load of 0.3"), "{one:?}");
        assert_eq!(one[1], "SKIPPED  as good as haproxy: it is not installed");
    }
}
