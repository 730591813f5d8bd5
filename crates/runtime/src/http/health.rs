//! Probes a server. Failed probes eject it, and successful ones restore it.
//!
//! An ejected server receives only probes. The kernel also ejects servers when their copies fail.
//! Even without active checks, probes are therefore needed to find out whether such a server has
//! recovered.

use std::time::Duration;

use curtail_kernel::{Outcome, ServerId};
use tokio::time::{sleep, timeout};

use super::Http;
use super::message::Request;
use crate::cell::Cell;
use crate::failure::Failure;
use crate::observe::ProbeFailure;

/// How a server is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The target of the GET requests that probe the server. The server is healthy if its response
    /// is good, or if its status is caused by the request. Outcomes are determined in the same way
    /// as for queries. With `None`, only servers that are out of service are probed, and they are
    /// healthy if they accept a connection.
    pub path: Option<String>,
    /// Time between two probes.
    pub interval: Duration,
    /// Timeout of a probe.
    pub timeout: Duration,
}

impl Default for Health {
    fn default() -> Self {
        let (interval, timeout) = (Duration::from_millis(250), Duration::from_millis(500));
        Self { path: Some("/".into()), interval, timeout }
    }
}

/// Maximum size of the response to a probe. The connection of a longer one is reset.
const PROBE_BYTES_MAX: usize = 64 << 10;

/// Probes in a row that must fail.
const FAILURES: u32 = 2;

/// Probes a server of a cell until the future is dropped.
pub async fn watch(cell: Cell<Http>, server: ServerId, health: Health) {
    let mut failures = 0;
    loop {
        sleep(health.interval).await;
        cell.transport().upstream(server).close_old();
        let up = cell.look(|core| core.server(server).up);
        if up && health.path.is_none() {
            continue;
        }
        match probe(&cell, server, &health).await {
            Ok(()) => {
                failures = 0;
                if !up {
                    cell.server_up(server);
                }
            }
            // Twice in a row takes a server out; where nothing listens, once is enough.
            Err(Some(why)) => {
                cell.probe_failed(server, why);
                failures = if why.is_unreachable() { FAILURES } else { failures.saturating_add(1) };
                if failures >= FAILURES {
                    eject(&cell, server, why);
                }
            }
            Err(None) => {}
        }
    }
}

/// The server gets no new copies. Those with a waiting client may still end well: it may have
/// stopped listening in order to finish what it has, or be too busy for a probe. The others hold
/// slots of a machine that does not even respond to probes; they are lost, or it could not be used when
/// it returns.
fn eject(cell: &Cell<Http>, server: ServerId, why: ProbeFailure) {
    cell.fails_probes(server, why);
    let (holds, awaited) =
        cell.look(|core| (core.server(server).outstanding > 0, core.is_awaited(server)));
    if holds && !awaited {
        cell.server_down(server);
        // Its copies are lost, but in an all-bad group it is still one that may be tried.
        cell.fails_probes(server, why);
    }
}

/// `Err(None)`: it could not be sent, for a reason on this side, which says nothing about the server.
async fn probe(
    cell: &Cell<Http>,
    server: ServerId,
    health: &Health,
) -> Result<(), Option<ProbeFailure>> {
    let upstream = cell.transport().upstream(server);
    let asking = async {
        let Some(path) = &health.path else {
            return upstream.open().await.map(|_| ()).map_err(found);
        };
        let host = [("host", upstream.address().to_string())];
        let request = Request::new("GET", path, host, "", true).map_err(|_| None)?;
        // A connection of its own, because a server whose old connections still work may accept no
        // new ones.
        let probed = upstream.fresh_exchange(&request).await;
        let (mut incoming, head) = probed.map_err(found)?;
        // At the end of its response, the connection is closed and not reset.
        let _ = incoming.body_all(PROBE_BYTES_MAX).await;
        let status = head.status();
        let wins = cell.transport().outcome(status).wins();
        if wins { Ok(()) } else { Err(Some(ProbeFailure::Status(status))) }
    };
    timeout(health.timeout, asking).await.unwrap_or(Err(Some(ProbeFailure::Silent)))
}

/// None where it failed on this side.
fn found(failure: Failure) -> Option<ProbeFailure> {
    (failure.outcome() != Outcome::Local).then_some(ProbeFailure::Failed(failure))
}
