//! Clients that use HTTP/2 over TLS: one for each shard of the search service, and one of a gRPC
//! service whose replicas are tonic servers.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::Value;

use super::SHARDS;
use xtask::process::{Process, tied};

/// Calls per second. With this rate, two of the three replicas are busy about a quarter of the time.
const CALLS: f64 = 60.0;

/// The results of one client.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Load {
    name: String,
    requests: u64,
    /// Responses that are errors.
    pub(super) errors: u64,
    /// Requests without a response.
    pub(super) unanswered: u64,
}

impl Load {
    /// Whether at most this share of the responses are errors, and there are responses.
    pub(super) fn is_fine(&self, errors: f64) -> bool {
        self.requests > 0 && self.errors as f64 <= errors * self.requests as f64
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, requests, errors, unanswered } = self;
        write!(f, "{name}: {requests} requests ({errors} errors, {unanswered} without a response)")
    }
}

/// Clients that are running.
pub(super) struct Loads(Vec<(String, Process)>);

impl Loads {
    /// Starts the clients, which send requests to the TLS port for this time.
    pub(super) fn start(
        curtail: &Path,
        folder: &Path,
        to: SocketAddr,
        rate: f64,
        length: Duration,
    ) -> Result<Self> {
        let proto = folder.join("calls.proto");
        std::fs::write(&proto, xtask::CALLS_PROTO).context("cannot write a description")?;
        let search = format!("https://{to}/search?q=tail%20word7");
        let calls = format!("grpcs://{to}/calls.Calls/Query");
        let proto = proto.to_string_lossy();
        let start = |name: String, target: &str, rate: f64, more: &[&str]| {
            let mut command = tied(curtail);
            command.args(["load", target, "--insecure", "--json", "--rate", &rate.to_string()]);
            command.args(["--duration", &format!("{}ms", length.as_millis())]).args(more);
            let process = Process::start(&name, command, folder)?;
            anyhow::Ok((name, process))
        };
        // The shards get equal loads, so that one replica of each could serve all its requests.
        let mut loads = Vec::new();
        for shard in 0..SHARDS {
            let (header, rate) = (format!("x-shard: {shard}"), rate / 2.0 / f64::from(SHARDS));
            let name = format!("h2 shard {shard}");
            loads.push(start(name, &search, rate, &["--http2", "--header", &header])?);
        }
        let more = ["--proto", &proto, "--body", "{}"];
        loads.push(start("grpc".to_owned(), &calls, CALLS, &more)?);
        Ok(Self(loads))
    }

    /// Waits for the last responses.
    pub(super) fn finish(self) -> Result<Vec<Load>> {
        let finish = |(name, process): (String, Process)| {
            let text = process.finish()?;
            let report = serde_json::from_str(&text);
            let report = report.with_context(|| format!("{name}: no report: {text}"))?;
            Ok(read(name, &report))
        };
        self.0.into_iter().map(finish).collect()
    }
}

fn read(name: String, report: &Value) -> Load {
    let requests = report["requests"].as_u64().unwrap_or(0);
    let mut load = Load { name, requests, ..Load::default() };
    for (kind, count) in report["errors"].as_object().into_iter().flatten() {
        let count = count.as_u64().unwrap_or(0);
        match kind.as_str() {
            "status_5xx" | "status_other" | "refused" => load.errors += count,
            _ => load.unanswered += count,
        }
    }
    load
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_status_is_no_response() {
        let report = json!({"requests": 10, "errors": {
            "status_5xx": 1, "status_other": 2, "timeout": 3, "reset": 4, "in_flight": 5,
        }});
        let load = read("h2".to_owned(), &report);
        assert_eq!((load.requests, load.errors, load.unanswered), (10, 3, 12));
        assert!(load.is_fine(0.3) && !load.is_fine(0.2));
        assert!(!read("h2".to_owned(), &json!({})).is_fine(1.0));
    }
}
