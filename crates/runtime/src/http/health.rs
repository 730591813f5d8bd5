//! Probes the health of a server over HTTP.

use std::future::poll_fn;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use curtail_kernel::{Outcome, ServerId};
use prost::Message as _;
use tokio::time::timeout;

use super::message::Request;
use super::upstream::Upstream;
use super::{Http, grpc};
use crate::cell::Cell;
use crate::failure::Failure;
use crate::health::{self, Check};
use crate::observe::ProbeFailure;

/// How a server is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The probe.
    pub probe: Probe,
    /// Time between two probes.
    pub interval: Duration,
    /// Timeout of a probe.
    pub timeout: Duration,
}

/// A probe of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A GET request for this target. The server is healthy if its response is good, or if its status
    /// is caused by the request. Outcomes are determined in the same way as for queries.
    Get(String),
    /// The call `grpc.health.v1.Health/Check` for this service, or for the whole server if the name is
    /// empty. The server is healthy if it responds with SERVING, or if it does not implement the call.
    Grpc(String),
    /// Only servers that are out of service are probed, and they are healthy if they accept a
    /// connection.
    Connect,
}

impl Default for Health {
    fn default() -> Self {
        let (interval, timeout) = (Duration::from_millis(250), Duration::from_millis(500));
        Self { probe: Probe::Get("/".into()), interval, timeout }
    }
}

/// Maximum size of the response to a probe. The connection of a longer one is reset.
const PROBE_BYTES_MAX: usize = 64 << 10;

/// Probes a server of a cell until the future is dropped.
pub async fn watch(cell: Cell<Http>, server: ServerId, health: Health) {
    let check = |up| {
        let (cell, health) = (&cell, &health);
        async move {
            cell.transport().upstream(server).close_old();
            if up && health.probe == Probe::Connect {
                return Check::Unknown;
            }
            match probe(cell, server, health).await {
                Ok(()) => Check::Passed,
                Err(Some(why)) => Check::Failed(why),
                Err(None) => Check::Unknown,
            }
        }
    };
    health::watch(cell.clone(), server, health.interval, check).await;
}

/// `Err(None)`: it could not be sent, for a reason on this side, which says nothing about the server.
async fn probe(
    cell: &Cell<Http>,
    server: ServerId,
    health: &Health,
) -> Result<(), Option<ProbeFailure>> {
    let upstream = cell.transport().upstream(server);
    let asking = async {
        match &health.probe {
            Probe::Connect => upstream.open().await.map(|_| ()).map_err(found),
            Probe::Get(path) => {
                let host = [("host", upstream.address().to_string())];
                let request = Request::new("GET", path, host, "", true).map_err(|_| None)?;
                let (status, ..) = exchange(upstream, &request).await?;
                let wins = cell.transport().outcome(status).wins();
                if wins { Ok(()) } else { Err(Some(ProbeFailure::Status(status))) }
            }
            Probe::Grpc(service) => check(upstream, service).await,
        }
    };
    timeout(health.timeout, asking).await.unwrap_or(Err(Some(ProbeFailure::Silent)))
}

/// Sends a probe on a connection of its own, because a server whose old connections still work may
/// accept no new ones. Returns the status, the code of gRPC if there is one, and the body.
async fn exchange(
    upstream: &Upstream,
    request: &Request,
) -> Result<(u16, Option<u16>, Bytes), Option<ProbeFailure>> {
    let (mut incoming, head) = upstream.fresh_exchange(request).await.map_err(found)?;
    // At the end of its response, the connection is closed and not reset.
    let body = incoming.body_all(PROBE_BYTES_MAX).await.unwrap_or_default();
    let trailers = poll_fn(|context| incoming.poll_trailers(context)).await.unwrap_or_default();
    Ok((head.status(), grpc::code(grpc::status(&head), trailers.as_deref()), body))
}

/// Calls `grpc.health.v1.Health/Check`.
async fn check(upstream: &Upstream, service: &str) -> Result<(), Option<ProbeFailure>> {
    let fields =
        [("host", upstream.address().to_string()), ("content-type", "application/grpc".to_owned())];
    let message = HealthCheckRequest { service: service.to_owned() }.encode_to_vec();
    let mut body = BytesMut::new();
    // Not compressed, and the length (the gRPC specification, *Length-Prefixed-Message*).
    body.put_u8(0);
    body.put_u32(message.len() as u32);
    body.put_slice(&message);
    let (path, body) = ("/grpc.health.v1.Health/Check", body.freeze());
    let request = Request::new("POST", path, fields, body, true).map_err(|_| None)?;
    let (status, code, body) = exchange(upstream, &request).await?;
    match code {
        Some(UNIMPLEMENTED) => Ok(()),
        Some(OK) => {
            let message =
                body.get(PREFIX..).and_then(|message| HealthCheckResponse::decode(message).ok());
            let is_serving = message.is_some_and(|message| message.status == SERVING);
            if is_serving { Ok(()) } else { Err(Some(ProbeFailure::NotServing)) }
        }
        Some(code) => Err(Some(ProbeFailure::GrpcStatus(code))),
        None => Err(Some(ProbeFailure::Status(status))),
    }
}

const OK: u16 = 0;
const UNIMPLEMENTED: u16 = 12;
/// Number of bytes before a message.
const PREFIX: usize = 5;

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// `ServingStatus.SERVING`.
const SERVING: i32 = 1;

/// None where it failed on this side.
fn found(failure: Failure) -> Option<ProbeFailure> {
    (failure.outcome() != Outcome::Local).then_some(ProbeFailure::Failed(failure))
}
