//! Checks the health of servers. Failed checks take a server out, and successful ones restore it.
//!
//! A server that is out receives no queries. The kernel also ejects servers when their copies fail.
//! Even without active checks, something must therefore find out whether such a server has recovered.

use std::future::Future;
use std::time::Duration;

use curtail_kernel::ServerId;
use tokio::time::sleep;

use crate::cell::Cell;
use crate::observe::ProbeFailure;
use crate::transport::Transport;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The server is healthy.
    Passed,
    /// The server is not healthy.
    Failed(ProbeFailure),
    /// The server was not checked, or the check failed for a reason on this side.
    Unknown,
}

/// Checks in a row that must fail.
const FAILURES: u32 = 2;

/// Checks a server of a cell until the future is dropped. `check` gets whether the server is up.
pub async fn watch<T: Transport, F: Future<Output = Check>>(
    cell: Cell<T>,
    server: ServerId,
    interval: Duration,
    check: impl Fn(bool) -> F,
) {
    let mut failures = 0;
    loop {
        sleep(interval).await;
        let up = cell.look(|core| core.server(server).up);
        match check(up).await {
            Check::Passed => {
                failures = 0;
                if !up {
                    cell.server_up(server);
                }
            }
            // Twice in a row takes a server out; where nothing listens, once is enough.
            Check::Failed(why) => {
                cell.probe_failed(server, why);
                failures = if why.is_unreachable() { FAILURES } else { failures.saturating_add(1) };
                if failures >= FAILURES {
                    eject(&cell, server, why);
                }
            }
            Check::Unknown => {}
        }
    }
}

/// The server gets no new copies. Those with a waiting client may still end well: it may have
/// stopped listening in order to finish what it has, or be too busy for a check. The others hold
/// slots of a machine that does not even respond to checks; they are lost, or it could not be used
/// when it returns.
fn eject<T: Transport>(cell: &Cell<T>, server: ServerId, why: ProbeFailure) {
    cell.fails_probes(server, why);
    let (holds, awaited) =
        cell.look(|core| (core.server(server).outstanding > 0, core.is_awaited(server)));
    if holds && !awaited {
        cell.server_down(server);
        // Its copies are lost, but in an all-bad group it is still one that may be tried.
        cell.fails_probes(server, why);
    }
}
