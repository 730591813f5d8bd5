//! Watching a server from outside: probes take it out, and bring it back.
//!
//! A server that is out gets nothing but probes. The kernel takes servers out, too, when copies
//! fail; so even without active checks something must find out whether such a server has returned.

use std::time::Duration;

use bytes::BytesMut;
use curtail_http1::{BodyLength, Limits, Persistence, client, write_request};
use curtail_kernel::ServerId;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::{Http, failure, is_failure, pool};
use crate::cell::Cell;
use crate::observe::ProbeFailure;
use crate::transport::Failure;

/// How a server is probed.
#[derive(Clone, Debug)]
pub struct Health {
    /// The target of a GET, answered with a status below 500 by a healthy server, as queries are.
    /// None: a connection is enough, and only servers that are out are probed.
    pub path: Option<String>,
    /// Between two probes.
    pub interval: Duration,
    /// For one probe.
    pub timeout: Duration,
}

impl Default for Health {
    fn default() -> Self {
        let (interval, timeout) = (Duration::from_millis(250), Duration::from_millis(500));
        Self { path: Some("/".into()), interval, timeout }
    }
}

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Good,
    /// Twice in a row takes a server out; where nothing listens, once is enough.
    Bad(ProbeFailure),
    /// It could not be sent, for a reason on this side: that says nothing about the server.
    Nothing,
}

/// Probes in a row that must fail.
const FAILURES: u32 = 2;

/// Watches a server of a cell until it is dropped.
pub async fn watch(cell: Cell<Http>, server: ServerId, health: Health) {
    let mut failures = 0;
    loop {
        sleep(health.interval).await;
        cell.transport().pool(server).close_old();
        let up = cell.look(|core| core.server(server).up);
        if up && health.path.is_none() {
            continue;
        }
        match probe(&cell, server, &health).await {
            Found::Good => {
                failures = 0;
                if !up {
                    cell.server_up(server);
                }
            }
            Found::Bad(why) => {
                failures = if why == ProbeFailure::ConnectFailed {
                    FAILURES
                } else {
                    failures.saturating_add(1)
                };
                if failures >= FAILURES {
                    eject(&cell, server, why);
                }
            }
            Found::Nothing => {}
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

async fn probe(cell: &Cell<Http>, server: ServerId, health: &Health) -> Found {
    let address = cell.transport().pool(server).address();
    let asking = async {
        let stream = match TcpStream::connect(address).await {
            Ok(stream) => stream,
            Err(error) => {
                return found(pool::failure(&error));
            }
        };
        let Some(path) = &health.path else { return Found::Good };
        let mut request = BytesMut::new();
        let host = [("host", address.to_string())];
        let written =
            write_request(&mut request, "GET", path, host, BodyLength::None, Persistence::Close);
        let mut connection = client::Connection::new(stream, Limits::default());
        match written {
            Ok(()) => match connection.send(&request, false).await {
                Ok(head) if is_failure(head.status()) => {
                    Found::Bad(ProbeFailure::Status(head.status()))
                }
                Ok(_) => Found::Good,
                Err(error) => found(failure(&error)),
            },
            Err(_) => Found::Nothing,
        }
    };
    timeout(health.timeout, asking).await.unwrap_or(Found::Bad(ProbeFailure::Silent))
}

fn found(failure: Failure) -> Found {
    match failure {
        Failure::ConnectFailed => Found::Bad(ProbeFailure::ConnectFailed),
        Failure::Reset => Found::Bad(ProbeFailure::Reset),
        Failure::Malformed => Found::Bad(ProbeFailure::Malformed),
        Failure::Local => Found::Nothing,
    }
}
