//! Line 1: what is reported is what was done.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::tools::{Server, example, json, number};
use crate::accept::finding::Finding;
use crate::cargo::{self, Profile};

/// The protocols, with the target and the flags of each.
const PROTOCOLS: [(&str, &str, &[&str]); 7] = [
    ("http1", "http://{}/x", &[]),
    ("http2", "http://{}/x", &["--http2"]),
    ("grpc", "grpc://{}/stub.Stub/Ask", &["--data", r#"{"base64": ""}"#]),
    ("memcached", "memcached://{}", &["--data", "get key"]),
    ("redis", "redis://{}", &["--data", "GET key"]),
    ("tcp", "tcp://{}", &["--data", r"ask\n"]),
    ("udp", "udp://{}", &[]),
];
/// What the stub does to each answer.
const DELAY: &str = "uniform:1ms:30ms";
const PERCENTILES: [&str; 4] = ["p50", "p90", "p95", "p99"];

pub(in super::super) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let (stub, curtail) = (example(root, "stub")?, cargo::curtail(root, Profile::Release)?);
    let mut findings = Vec::new();
    for (protocol, target, flags) in PROTOCOLS {
        // The path there and back, without a delay: in the same run, at the same rate.
        let (plain, _) = run(&stub, &curtail, &[protocol], target, flags)?;
        let (measured, truth) = run(&stub, &curtail, &[protocol, DELAY], target, flags)?;
        findings.push(agreement(protocol, &plain, &measured, &truth));
    }
    findings.push(stall(&stub, &curtail)?);
    Ok(findings)
}

fn run(
    stub: &Path,
    curtail: &Path,
    serve: &[&str],
    target: &str,
    flags: &[&str],
) -> Result<(Value, Value)> {
    let server = Server::start(stub, serve)?;
    let target = target.replace("{}", &server.address);
    let mut arguments = vec!["load", &target, "--rate", "500", "--duration", "12s", "--json"];
    arguments.extend(flags);
    let measured = json(curtail, &arguments)?;
    Ok((measured, serde_json::from_str(&server.finish()?)?))
}

/// At each percentile within 2 %, or what the path takes there.
fn agreement(protocol: &str, plain: &Value, measured: &Value, truth: &Value) -> Finding {
    let mut holds = measured["errors"]
        .as_object()
        .is_some_and(|errors| errors.values().all(|count| count.as_u64() == Some(0)))
        && measured["requests"] == truth["requests"];
    let mut told = Vec::new();
    for percentile in PERCENTILES {
        let path = number(plain, &["latency_ns", percentile]);
        let found = number(measured, &["latency_ns", percentile]);
        let true_ns = number(truth, &["truth_ns", percentile]);
        let allowed = (true_ns * 0.02).max(path);
        holds &= (found - true_ns).abs() <= allowed;
        told.push(format!(
            "{percentile} {:.3} ms, truth {:.3} (within {:.3})",
            found / 1e6,
            true_ns / 1e6,
            allowed / 1e6
        ));
    }
    let claim = format!("{protocol}: the truth, within 2 % or the path's own time");
    Finding::new(claim, told.join("; "), holds)
}

/// Line 4: what a closed loop leaves out.
pub(in super::super) fn omission(root: &Path) -> Result<Vec<Finding>> {
    let (stub, curtail) = (example(root, "stub")?, cargo::curtail(root, Profile::Release)?);
    let server = Server::start(&stub, &["http1", "det:1ms", "10s/1s"])?;
    let target = format!("http://{}/x", server.address);
    let common = ["load", &target, "--duration", "30s", "--connections", "8", "--json"];
    let p99 = |flags: &[&str]| -> Result<f64> {
        let measured = json(&curtail, &[&common, flags].concat())?;
        Ok(number(&measured, &["latency_ns", "p99"]) / 1e6)
    };
    let (closed, open) = (p99(&["--closed"])?, p99(&["--rate", "500"])?);
    Ok(vec![Finding::new(
        "a closed loop hides the stall of a second that an open one shows",
        format!("p99 of 8 connections in a closed loop {closed:.1} ms, at 500/s {open:.0} ms"),
        closed < 100.0 && open > 500.0,
    )])
}

fn stall(stub: &Path, curtail: &Path) -> Result<Finding> {
    let server = Server::start(stub, &["http1", "det:1ms", "10s/1s"])?;
    let target = format!("http://{}/x", server.address);
    let arguments =
        ["load", &target, "--rate", "500", "--duration", "30s", "--connections", "8", "--json"];
    let measured = json(curtail, &arguments)?;
    let corrected = number(&measured, &["latency_ns", "p99"]) / 1e6;
    let uncorrected = number(&measured, &["uncorrected_ns", "p99"]) / 1e6;
    Ok(Finding::new(
        "a stall of a second every ten shows in the corrected p99 and not in the uncorrected one",
        format!(
            "8 connections, 500/s: corrected {corrected:.0} ms, uncorrected {uncorrected:.1} ms"
        ),
        corrected > 500.0 && uncorrected < 100.0,
    ))
}
