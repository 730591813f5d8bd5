//! The response to the client.

use std::sync::Arc;
use std::time::Duration;

use curtail_flow::Rejected;
use curtail_http::grpc::{PUSH_BACK, STATUS};
use curtail_http::h1::server::ServerError;
use curtail_http::h1::{BodyLength, Framing, Joined, Relayed, ResponseHead};
use curtail_runtime::http::{Body, BodyReceiver, Http, Response};
use curtail_runtime::stage::Stage;
use curtail_runtime::{Cell, QueryError, QueryResponse};
use http::{HeaderMap, HeaderValue};
use percent_encoding::{CONTROLS, utf8_percent_encode};
use tokio::time::Instant;

use super::front::{Cut, Front};
use super::tunnel::{Tunnel, Upgrade, WEBSOCKET_ACCEPT};
use crate::metrics::RequestOutcome;
use crate::sidecar::{Fields, Refusal};
use crate::state::Service;

/// For a client beyond the last place.
pub(super) const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 21\r\n\
    content-type: text/plain\r\nretry-after: 1\r\nconnection: close\r\n\r\ntoo many connections\n";

/// For a client that sends plain HTTP to the port for TLS.
pub(super) const NOT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 37\r\n\
    content-type: text/plain\r\nconnection: close\r\n\r\nthis port requires TLS: use https://\n";

/// What a response depends on besides the response.
pub(super) struct ResponseContext<'a> {
    pub(super) service: &'a Service,
    pub(super) cell: &'a Cell<Http>,
    pub(super) shard: usize,
    pub(super) is_head: bool,
    /// When the whole response must have been relayed.
    pub(super) deadline: Instant,
    /// Whether the client has set that deadline.
    pub(super) is_client_deadline: bool,
    /// The stage before the replica, which counts what leaves.
    pub(super) stage: Option<&'a Stage>,
    /// What a sidecar changes.
    pub(super) fields: Fields,
    /// Present if the client wants to switch to another protocol.
    pub(super) upgrade: Option<Arc<Upgrade>>,
}

impl ResponseContext<'_> {
    fn sent(&self, bytes: usize) {
        if let Some(stage) = self.stage {
            stage.did(bytes as u64);
        }
    }

    fn none_up(&self) -> bool {
        let servers = self.service.servers(self.shard);
        self.cell.look(|core| servers.iter().all(|&server| !core.server(server).up))
    }

    /// Which bound of the configuration passed.
    fn too_slow(&self) -> String {
        let config = &self.service.config;
        if self.is_client_deadline && Instant::now() >= self.deadline {
            return "no replica responded before the client's deadline".to_owned();
        }
        let (key, bound) = if Instant::now() >= self.deadline {
            ("timeout", config.timeout)
        } else {
            ("attempt_timeout", Duration::from_nanos(config.limits.attempt_timeout_ns))
        };
        format!(
            "no replica responded in time ({key} = \"{bound:?}\"); raise it if replicas may take \
             longer"
        )
    }
}

/// A line of text of our own.
pub(super) async fn text<F: Front>(
    client: &mut F,
    status: u16,
    text: &str,
    retry_after: Option<&str>,
    fields: &Fields,
) -> Result<(), ServerError> {
    if client.is_grpc() {
        return grpc_error(client, status, text, retry_after, fields).await;
    }
    let line = format!("{text}\n");
    let headers = [(&b"content-type"[..], &b"text/plain; charset=utf-8"[..])];
    let retry = retry_after.map(|seconds| (&b"retry-after"[..], seconds.as_bytes()));
    let headers = headers.into_iter().chain(retry).chain(fields.added());
    client.start_response(status, headers, BodyLength::Known(line.len() as u64))?;
    client.send_whole(line.into()).await
}

/// An error of our own for a client of gRPC, as a response that consists of a head alone. A client
/// that may retry gets the pause as push-back (gRFC A6).
async fn grpc_error<F: Front>(
    client: &mut F,
    status: u16,
    text: &str,
    retry_after: Option<&str>,
    fields: &Fields,
) -> Result<(), ServerError> {
    let code = grpc_code(status).to_string();
    let text = utf8_percent_encode(text, CONTROLS).to_string();
    let pause = retry_after.map(|seconds| format!("{seconds}000"));
    let push_back = PUSH_BACK;
    let pause = pause.as_deref().map(|ms| (push_back.as_str(), ms));
    let own =
        [("content-type", "application/grpc"), ("grpc-status", &code), ("grpc-message", &text)];
    let own = own.into_iter().chain(pause);
    let own = own.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    client.start_response(200, own.chain(fields.added()), BodyLength::Known(0))?;
    client.finish_body(None).await
}

/// The trailers of a gRPC response whose deadline has passed.
pub(super) fn late() -> Box<HeaderMap> {
    const MESSAGE: &str = "the deadline of the call or the timeout of the proxy has passed";
    let mut trailers = HeaderMap::new();
    trailers.insert(STATUS, HeaderValue::from(DEADLINE_EXCEEDED));
    trailers.insert("grpc-message", HeaderValue::from_static(MESSAGE));
    Box::new(trailers)
}

const DEADLINE_EXCEEDED: u16 = 4;

/// The gRPC status for a status of HTTP.
fn grpc_code(status: u16) -> u16 {
    const RESOURCE_EXHAUSTED: u16 = 8;
    const UNIMPLEMENTED: u16 = 12;
    const INTERNAL: u16 = 13;
    const UNAVAILABLE: u16 = 14;
    match status {
        404 | 501 => UNIMPLEMENTED,
        413 | 431 => RESOURCE_EXHAUSTED,
        408 | 504 => DEADLINE_EXCEEDED,
        502 | 503 => UNAVAILABLE,
        _ => INTERNAL,
    }
}

/// Responds to a request that was not admitted.
pub(super) async fn refusal<F: Front>(client: &mut F, refusal: &Refusal) -> Result<u16, Cut> {
    let said = Rejected { reason: refusal.reason }.to_string();
    text(client, 503, &said, None, &refusal.fields).await?;
    Ok(503)
}

/// A response that has been sent, up to what follows.
pub(super) struct Responded {
    pub(super) status: u16,
    pub(super) outcome: RequestOutcome,
    pub(super) follows: Follows,
}

/// What follows the head of a response.
pub(super) enum Follows {
    /// The response is complete.
    Nothing,
    Stream(BodyReceiver),
    Tunnel(Tunnel),
}

/// Passes on what became of a query.
pub(super) async fn outcome<F: Front>(
    client: &mut F,
    context: &ResponseContext<'_>,
    outcome: Result<QueryResponse<Response>, QueryError<Response>>,
) -> Result<Responded, Cut> {
    let error = match outcome {
        Ok(response) => {
            let extra = debug_headers(context, &response);
            let (status, follows) = respond(client, context, response.response, &extra).await?;
            return Ok(Responded { status, outcome: RequestOutcome::Answered, follows });
        }
        Err(QueryError::Failed { response: Some(response), .. }) => {
            let (status, follows) = respond(client, context, response.response, &[]).await?;
            return Ok(Responded { status, outcome: RequestOutcome::Failed, follows });
        }
        Err(error) => error,
    };
    let is_late = client.is_grpc() && Instant::now() >= context.deadline;
    let (status, retry_after, outcome) = match error {
        QueryError::Expired if is_late => (504, None, RequestOutcome::Shed),
        QueryError::QueueFull | QueryError::Expired => (503, Some("1"), RequestOutcome::Shed),
        QueryError::GaveWay => (503, None, RequestOutcome::Shed),
        QueryError::Timeout => (504, None, RequestOutcome::Failed),
        QueryError::Failed { .. } => (502, None, RequestOutcome::Failed),
    };
    let said = match error {
        QueryError::Expired if context.none_up() => {
            "no replica of this shard is up: all are unhealthy or ejected; start one, or see the \
             log for the reasons"
                .to_owned()
        }
        QueryError::Timeout => context.too_slow(),
        error => error.to_string(),
    };
    text(client, status, &said, retry_after, &context.fields).await?;
    Ok(Responded { status, outcome, follows: Follows::Nothing })
}

/// Where the response came from, for those who debug. One allocation each, so only on request.
fn debug_headers(
    context: &ResponseContext<'_>,
    response: &QueryResponse<Response>,
) -> Vec<(&'static str, String)> {
    if !context.service.config.debug_headers {
        return Vec::new();
    }
    let server = context.cell.transport().upstream(response.server).address();
    vec![
        ("x-curtail-server", server.to_string()),
        ("x-curtail-queued-us", (response.queued_ns / 1_000).to_string()),
        ("x-curtail-copies", response.copies.to_string()),
    ]
}

async fn respond<F: Front>(
    client: &mut F,
    context: &ResponseContext<'_>,
    response: Response,
    extra: &[(&'static str, String)],
) -> Result<(u16, Follows), Cut> {
    // Counts a whole body until it is sent.
    let Response { head, body, charge: _charge } = response;
    let status = head.status();
    let via = head.version().via();
    let extra = extra.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let added = context.fields.added().chain(extra).chain([(&b"via"[..], via)]);
    // The client gets its own value, if any.
    let is_tunnel = matches!(body, Body::Tunnel(_));
    let is_accept = |name: &[u8]| name.eq_ignore_ascii_case(WEBSOCKET_ACCEPT.as_bytes());
    let keep = |name: &[u8]| context.fields.keeps(name) && !(is_tunnel && is_accept(name));
    let relayed = Relayed { fields: &head, keep };
    let headers = Joined(relayed, added);
    if !is_tunnel && status < 300 && context.upgrade.as_ref().is_some_and(|of| of.is_connect) {
        let line = "the replica did not switch to the protocol";
        text(client, 502, line, None, &context.fields).await?;
        return Ok((502, Follows::Nothing));
    }
    match body {
        Body::Whole(..) if context.is_head => {
            client.start_response(status, headers, length(&head))?;
            client.finish_body(None).await?;
        }
        Body::Whole(body, Some(trailers)) => {
            context.sent(body.len());
            client.start_response(status, headers, length(&head))?;
            client.write_body(body).await?;
            client.finish_body(Some(trailers)).await?;
        }
        Body::Whole(body, None) => {
            context.sent(body.len());
            client.start_response(status, headers, whole_length(status, &body))?;
            client.send_whole(body).await?;
        }
        Body::Tunnel(replica) => {
            let Some(upgrade) = context.upgrade.clone() else { return Err(Cut::Replica) };
            client.open_tunnel(headers, &upgrade)?;
            client.flush().await?;
            return Ok((status, Follows::Tunnel(Tunnel { replica, upgrade })));
        }
        Body::Stream(body) => {
            client.start_response(status, headers, length(&head))?;
            return Ok((status, Follows::Stream(body)));
        }
    }
    Ok((status, Follows::Nothing))
}

/// The length of a body that is known in full. The body that 304 leaves out has another length.
fn whole_length(status: u16, body: &[u8]) -> BodyLength {
    if status == 304 { BodyLength::None } else { BodyLength::Known(body.len() as u64) }
}

/// The length that the response announces. The response to HEAD has the length that GET would have had.
fn length(head: &ResponseHead) -> BodyLength {
    match head.framing() {
        Framing::Length(bytes) => BodyLength::Known(bytes),
        Framing::Chunked | Framing::UntilClose => BodyLength::Chunked,
        Framing::Empty => {
            let said = head.header("content-length").and_then(|v| std::str::from_utf8(v).ok());
            said.and_then(|v| v.parse().ok()).map_or(BodyLength::None, BodyLength::Known)
        }
    }
}
