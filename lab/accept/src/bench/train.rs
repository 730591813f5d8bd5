//! Requests for a proxy that counts what it executes.

use anyhow::Result;

use crate::figures::at;
use crate::lab::{Lab, Server};
use crate::line::Line;
use crate::proxies::CURTAIL;
use crate::verdict::least;
use crate::wire::{LISTEN_TLS, calls_proto, certificate, front};

pub(super) const TRAIN_11: Line = Line {
    number: 11,
    name: "train",
    text: "requests that show the optimizer what a proxy executes (cargo xtask package)",
    seconds: 70,
    quick_seconds: 70,
    needs: &["program:openssl"],
    judge: train,
    ..Line::NEW
};

/// Counts of the leaves and of the load generator go there, because only those of the proxy matter.
const DROPPED: &str = "/dev/null";

/// Starts a server, and our proxy in front of it.
struct Scene {
    proxy: Server,
    _server: Server,
}

impl Scene {
    fn new(lab: &Lab<'_>, server: &str, values: &[(&str, &str)]) -> Result<Self> {
        let server = lab.server(server)?.env("LLVM_PROFILE_FILE", DROPPED).listening()?;
        let values = [values, &[("slots", "64")]].concat();
        let proxy = front(lab, CURTAIL, "", &[&server], &values)?;
        Ok(Self { proxy, _server: server })
    }

    /// Sends requests to a path of the proxy, and returns their number.
    fn load(&self, lab: &Lab<'_>, scheme: &str, flags: &str) -> Result<f64> {
        let address = self.proxy.address;
        let load = lab.run(format!("@curtail load {scheme}://{address}{flags}"));
        Ok(at(&load.env("LLVM_PROFILE_FILE", DROPPED).json()?, "/requests"))
    }

    /// Reads streams through the proxy, and returns the number of chunks.
    fn read(&self, lab: &Lab<'_>, kind: &str, flags: &str) -> Result<f64> {
        let read = lab.run(format!("@streams {kind} {} 200 5 {flags}", self.proxy.address));
        Ok(read.fields()?.number("chunks"))
    }
}

/// Sends requests that use what most services use: both versions of HTTP, TLS, gRPC, streams,
/// bodies, and each kind of policy. No other line and no peer is involved, so a binary that is
/// optimized for them is not optimized for the comparisons.
fn train(lab: &mut Lab<'_>) -> Result<()> {
    const GRPC: (&str, &str) = ("protocol", r#"protocol = "grpc""#);
    const HTTPS: (&str, &str) = ("listen", LISTEN_TLS);
    certificate(lab)?;
    let proto = calls_proto(lab)?;
    let mut requests = Vec::new();
    for (policy, scheme, flags) in [
        ("psq", "http", ""),
        ("rescue", "http", ""),
        ("laedge", "http", "--body sixteen-letters!"),
        ("least-outstanding", "http", "--http2"),
        ("two-choices", "https", "--insecure"),
        ("delayed:p95", "https", "--insecure --http2"),
    ] {
        let leaf = "@curtail leaf --tied-to-parent --listen 127.0.0.1:{port}";
        let listen: &[_] = if scheme == "https" { &[HTTPS] } else { &[] };
        let scene = Scene::new(lab, leaf, &[&[("policy", policy)], listen].concat())?;
        let flags = format!("/health --rate 2000 --duration 5s --json {flags}");
        requests.push(scene.load(lab, scheme, &flags)?);
    }
    let mut calls = Vec::new();
    for (policy, scheme, flags) in [("psq", "grpc", ""), ("rescue", "grpcs", "--insecure")] {
        let server = "@calls serve 127.0.0.1:{port} 4 1";
        let listen: &[_] = if scheme == "grpcs" { &[HTTPS] } else { &[] };
        let scene = Scene::new(lab, server, &[&[("policy", policy), GRPC], listen].concat())?;
        let flags = format!(
            "/calls.Calls/Query {flags} --proto {proto} --body {{}} --rate 300 --duration 5s --json"
        );
        calls.push(scene.load(lab, scheme, &flags)?);
    }
    let events = Scene::new(lab, "@streams serve 127.0.0.1:{port} 50", &[])?;
    let events = events.read(lab, "read", "")?;
    let messages = Scene::new(lab, "@streams serve-grpc 127.0.0.1:{port} 50", &[GRPC])?;
    let messages = messages.read(lab, "read-grpc", "50")?;
    for (what, arrived) in [
        ("requests", requests),
        ("calls", calls),
        ("events", vec![events]),
        ("messages", vec![messages]),
    ] {
        lab.check(format!("{what} that arrive"), arrived, least(1000.0));
    }
    Ok(())
}
