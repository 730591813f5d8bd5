//! The proxies: how each is set up, and how it is started.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::child::{Child, free_address};
use super::install::Found;
use super::{configs, envoy};
use crate::tied::tied;

/// A proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    /// Ourselves, who are always there
    #[value(skip)]
    Curtail,
    /// `maxconn` per server, so that queries wait in one queue per shard
    Haproxy,
    /// Least request with a full scan; it has no queue to hold queries back in
    Envoy,
    /// `least_conn`; its queue is not in the free edition
    Nginx,
}

/// What a proxy is put in front of.
pub(super) struct Upstream {
    pub(super) servers: Vec<SocketAddr>,
    /// Requests that a server serves at once.
    pub(super) slots: u32,
}

/// A proxy that runs.
pub(super) struct Running {
    pub(super) child: Child,
    pub(super) address: SocketAddr,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Curtail => "curtail",
            Kind::Haproxy => "haproxy",
            Kind::Envoy => "envoy",
            Kind::Nginx => "nginx",
        }
    }

    /// What matters of its configuration.
    pub(super) fn setup(self) -> &'static str {
        match self {
            Kind::Curtail => "psq, TOKIO_WORKER_THREADS=1",
            Kind::Haproxy => "nbthread 1, maxconn per server, http-reuse always, checks",
            Kind::Envoy => "concurrency 1, least request with full scan, no queue, checks",
            Kind::Nginx => "one process, least_conn, keep-alive, no queue, no checks",
        }
    }
}

/// Starts a proxy and waits until it answers. `core`: where it may run.
pub(super) fn start(
    found: &Found,
    upstream: &Upstream,
    folder: &Path,
    core: Option<usize>,
) -> Result<Running> {
    let name = found.kind.name();
    let mut command = tied(&found.program, core);
    let mut address = free_address()?;
    let write = |file: &str, text: &str| {
        let path = folder.join(file);
        std::fs::write(&path, text).with_context(|| format!("cannot write {path:?}"))?;
        Ok::<_, anyhow::Error>(path)
    };
    match found.kind {
        Kind::Curtail => {
            let config = write("curtail.toml", &configs::curtail(upstream))?;
            command.args(["proxy", "--announce", "--tied-to-stdin", "--config"]).arg(config);
            // The peers have one thread for requests as well.
            command.env("TOKIO_WORKER_THREADS", "1");
        }
        Kind::Haproxy => {
            let config = write("haproxy.cfg", &configs::haproxy(address, upstream))?;
            command.args(["-db", "-q", "-f"]).arg(config);
        }
        Kind::Envoy => {
            let config = write("envoy.json", &envoy::config(address, upstream).to_string())?;
            command.args(["--concurrency", "1", "--disable-hot-restart", "-l", "error", "-c"]);
            command.arg(config);
        }
        Kind::Nginx => {
            let config = write("nginx.conf", &configs::nginx(address, upstream, folder))?;
            command.arg("-p").arg(folder).arg("-e").arg("stderr").arg("-c").arg(config);
        }
    }
    let mut child = Child::start(name, command, folder)?;
    if found.kind == Kind::Curtail {
        address = child.announced()?;
    }
    child.answers(address, "/health")?;
    Ok(Running { child, address })
}
