//! Watching a server from outside: probes take it down, and bring it back.
//!
//! A server that is down gets nothing but probes. The kernel takes servers down, too, when copies
//! fail; so even without active checks somebody must look whether such a server has returned.

use std::time::Duration;

use bytes::BytesMut;
use curtail_http1::{BodyLength, Limits, Persistence, client, write_request};
use curtail_kernel::ServerId;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::Http;
use crate::cell::Cell;

/// How a server is probed.
#[derive(Clone, Debug)]
pub struct Health {
    /// The target of a GET, answered with a status below 400 by a healthy server. None: a
    /// connection is enough, and only servers that are down are probed.
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
    /// No answer, or a bad one: twice in a row takes a server down.
    Bad,
    /// Nothing listens: once is enough.
    Refused,
}

/// Probes in a row that must fail.
const FAILURES: u32 = 2;

/// Watches a server of a cell until it is dropped.
pub async fn watch(cell: Cell<Http>, server: ServerId, health: Health) {
    let mut failures = 0;
    loop {
        sleep(health.interval).await;
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
                continue;
            }
            Found::Bad => failures += 1,
            Found::Refused => failures = FAILURES,
        }
        if up && failures >= FAILURES {
            cell.server_down(server);
        }
    }
}

async fn probe(cell: &Cell<Http>, server: ServerId, health: &Health) -> Found {
    let address = cell.transport().pool(server).address();
    let asking = async {
        let Ok(stream) = TcpStream::connect(address).await else { return Found::Refused };
        let Some(path) = &health.path else { return Found::Good };
        let mut request = BytesMut::new();
        let host = [("host", address.to_string())];
        let written =
            write_request(&mut request, "GET", path, host, BodyLength::None, Persistence::Close);
        let mut connection = client::Connection::new(stream, Limits::default());
        match written {
            Ok(()) => match connection.send(&request, false).await {
                Ok(head) if head.status() < 400 => Found::Good,
                Ok(_) | Err(_) => Found::Bad,
            },
            Err(_) => Found::Bad,
        }
    };
    timeout(health.timeout, asking).await.unwrap_or(Found::Bad)
}
