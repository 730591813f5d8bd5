//! Serves one client's connection by handling its requests one after the other.
//!
//! A client that closes its sending half is treated as if it had left. On the wire, the two cases
//! look the same. Work for a client that has left would delay the clients that are still waiting.

use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use curtail_http::grpc::{PREVIOUS_ATTEMPTS, TIMEOUT, parse_timeout};
use curtail_http::h1::server::{Connection, Parts, ServerError};
use curtail_http::h1::{Framing, RequestHead, Version};
use curtail_kernel::stage::Priority;
use curtail_net::Stream;
use curtail_runtime::http::{
    Call, Http, PRIORITY, Payload, Request, Response, priority, type_of_service,
};
use curtail_runtime::stage::{Permit, Stage};
use curtail_runtime::{Cell, Query, QueryError, QueryResponse, marks};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::body::{self, Received};
use super::forward::{self, Message, PeerAddrs};
use super::front::{Cut, Front, Http1, unless_closed};
use super::respond::{self, Follows, Responded, ResponseContext};
use super::streaming::{End, Rest, Streaming};
use super::tunnel::Upgrade;
use crate::metrics::{Rejection, RequestOutcome};
use crate::route::{Router, Target};
use crate::sidecar::{Fields, Hop};
use crate::state::{Proxy, Service};

/// Serves HTTP/1.1. Returns what remains of the connection if the client uses HTTP/2.
pub(super) async fn serve(
    proxy: &Proxy,
    router: &Router,
    stream: Stream,
    draining: watch::Receiver<bool>,
) -> Option<Parts<Stream>> {
    let peer = PeerAddrs::of(&stream, Version::Http11);
    let listen = &proxy.config.listen;
    let mut client = Http1::new(Connection::new(stream, listen.limits, listen.timeouts));
    let mut waiting = draining.clone();
    let mut drained = pin!(waiting.wait_for(|draining| *draining));
    let mut drain_seen = false;
    loop {
        let served = match next(&mut client.connection, drained.as_mut(), &mut drain_seen).await {
            Ok(Some(head)) => {
                let here = Here { proxy, router, peer: &peer, draining: &draining };
                match handle(&here, &mut client, head).await {
                    Ok(Rest::Stream(stream)) => stream.run(&mut client).await,
                    Ok(Rest::Tunnel(tunnel)) => {
                        let Parts { stream, read } = client.connection.into_parts();
                        Box::pin(tunnel.run(stream.with_prefix(read))).await;
                        return None;
                    }
                    Ok(Rest::Nothing) => Ok(()),
                    Err(cut) => Err(cut),
                }
            }
            // Nothing is under way in either direction: there is no client to wait for.
            Ok(None) => return None,
            Err(error) => Err(Cut::Client(error)),
        };
        match served {
            Ok(()) if client.connection.is_closing() => break,
            Ok(()) => {}
            Err(Cut::Client(ServerError::Reject(reject))) => {
                if client.connection.is_http2() {
                    return Some(client.connection.into_parts());
                }
                proxy.metrics.rejected((&reject).into(), reject.status(), &reject);
                if client.connection.reject(&reject).await.is_err() {
                    return None;
                }
                break;
            }
            Err(cut) => {
                tracing::debug!(%cut, "client connection ended");
                return None;
            }
        }
    }
    client.connection.close().await;
    None
}

/// Returns the head of the next request, or `None` if there will be none. A proxy that drains waits
/// only for the rest of a request that has begun.
async fn next(
    client: &mut Connection<Stream>,
    mut drained: Pin<&mut impl Future>,
    drain_seen: &mut bool,
) -> Result<Option<RequestHead>, ServerError> {
    loop {
        tokio::select! {
            // A request that has arrived would be lost if the connection was closed first.
            biased;
            head = client.next_head() => return head,
            _ = drained.as_mut(), if !*drain_seen => *drain_seen = true,
        }
        if client.is_idle() {
            return Ok(None);
        }
        client.close_after_response();
    }
}

/// Where a request came in.
pub(super) struct Here<'a> {
    pub(super) proxy: &'a Proxy,
    pub(super) router: &'a Router,
    pub(super) peer: &'a PeerAddrs,
    pub(super) draining: &'a watch::Receiver<bool>,
}

/// Responds to a request, and returns what follows the head of the response, if that may take long. An error
/// leaves a connection that is of no further use, but for saying what was wrong with the body of the request.
pub(super) async fn handle<'a, F: Front>(
    here: &Here<'a>,
    client: &mut F,
    head: RequestHead,
) -> Result<Rest<'a>, Cut> {
    let proxy = here.proxy;
    let (target, upgrade) = match admit(here, &head) {
        Ok(admitted) => admitted,
        Err(refused) => return refuse(proxy, client, refused).await,
    };
    let service = &proxy.services[target.service];
    let budget = &proxy.budget;
    if head.framing() != Framing::Empty
        && budget.is_spent()
        && !body::wait_for_room(client, budget, proxy.config.listen.timeouts.body).await?
    {
        let text = "too many bodies wait in the proxy (listen.max_buffered)".to_owned();
        return refuse(proxy, client, Refused { why: Rejection::Buffers, status: 503, text }).await;
    }
    // The usual case, without the cost of another future.
    let received = match head.framing() {
        Framing::Empty => Payload::from(Bytes::new()).into(),
        _ => body::receive(client, budget, &service.config, &target, &head).await?,
    };
    let Received { payload, charge } = received;
    let now = Instant::now();
    let begun = Hop::begin(proxy, service, &target, &head, here.peer.client);
    let begun = match unless_closed(client, begun).await {
        Ok(begun) => begun,
        Err(cut) => {
            drop(service.metrics.started(now));
            return Err(cut);
        }
    };
    let (hop, fields) = match begun {
        Ok(begun) => begun,
        Err(refusal) => {
            let running = service.metrics.started(now);
            service.metrics.responded(respond::refusal(client, &refusal).await?);
            running.ended(RequestOutcome::Shed);
            return Ok(Rest::Nothing);
        }
    };
    let message = Message { head: &head, body: payload, upgrade: upgrade.as_deref() };
    let mut query = match forward::render(message, &target, &service.config, here.peer, &fields) {
        Ok(query) => query,
        Err(error) => {
            let text = format!("the request cannot be relayed: {error}");
            let why = Rejection::Malformed;
            return refuse(proxy, client, Refused { why, status: 400, text }).await;
        }
    };
    if let Some(watch) = hop.watch() {
        query.request = query.request.watched(watch);
    }
    if let Some(charge) = charge {
        query.request = query.request.charged(charge);
    }
    query.deadline = hop.deadline().or_else(|| {
        let timeout = head.header(TIMEOUT.as_str()).filter(|_| client.is_grpc())?;
        now.checked_add(parse_timeout(timeout)?)
    });
    // Bodies wait in the rendered request from here on.
    let rendered = RenderedRequest { service, shard: target.shard, hop, query, head, now, upgrade };
    exchange(here, client, rendered).await
}

/// A request that can be sent.
struct RenderedRequest<'a> {
    service: &'a Service,
    shard: usize,
    hop: Hop<'a>,
    query: Query<Request>,
    head: RequestHead,
    /// When the whole request was here.
    now: Instant,
    upgrade: Option<Arc<Upgrade>>,
}

/// A request that goes nowhere.
struct Refused {
    why: Rejection,
    status: u16,
    text: String,
}

/// Finds the destination of a request, and takes a place for the tunnel that it asks for.
fn admit(here: &Here<'_>, head: &RequestHead) -> Result<(Target, Option<Arc<Upgrade>>), Refused> {
    if forward::is_looping(head) {
        let text = "the request has passed through too many Curtail proxies: is one of them a \
                    replica of another?";
        return Err(Refused { why: Rejection::Loop, status: 508, text: text.to_owned() });
    }
    let values = |name| head.values(name);
    let target = here.router.route(head.method(), head.path_and_query(), values);
    let target = target.map_err(|error| {
        let (why, status, text) = (error.why.into(), error.status(), error.to_string());
        Refused { why, status, text }
    })?;
    let upgrade = Upgrade::of(head, &target, &here.proxy.services[target.service]);
    let upgrade = upgrade.map_err(|error| {
        let (why, status, text) = (Rejection::Tunnels, error.status(), error.to_string());
        Refused { why, status, text }
    })?;
    Ok((target, upgrade.map(Arc::new)))
}

/// Sends the query of a request, and its response.
async fn exchange<'a, F: Front>(
    here: &Here<'a>,
    client: &mut F,
    request: RenderedRequest<'a>,
) -> Result<Rest<'a>, Cut> {
    let RenderedRequest { service, shard, mut hop, mut query, head, now, upgrade } = request;
    let (is_head, version) = (head.is_head(), head.version());
    let place = (service.stage.as_ref()).map(|stage| (stage, priority(head.values(PRIORITY))));
    if let Some((_, priority)) = place {
        // The link is a stage, too, if it has bands.
        client.set_type_of_service(type_of_service(priority));
    }
    let (cell, group) = service.shard(shard);
    let running = service.metrics.started(now);
    let most = now + service.config.timeout;
    let own = query.deadline.filter(|&own| own < most);
    let (deadline, is_client_deadline) = (own.unwrap_or(most), own.is_some());
    if service.config.settings.grpc {
        let previous_attempts = previous_attempts(&head);
        query.request = query.request.call_of_grpc(Call { deadline, previous_attempts });
    }
    drop(head);
    let query = query.to_group(group);
    // A connection has one request at a time.
    let id = std::ptr::from_ref(client).addr() as u64;
    marks::parsed(id);
    // Dropping the query abandons it, and its place.
    let asked = if place.is_none() && hop.is_direct() {
        unless_closed(client, cell.query(query)).await.map(|outcome| (None, outcome))
    } else {
        // Large, and moved with every request if it were in the future itself.
        let asked = Box::pin(hop.run(ask(cell, query, place, deadline)));
        unless_closed(client, asked).await
    };
    let (mut permit, outcome) = asked?;
    marks::answered(id);
    if *here.draining.borrow() {
        client.close_after_response();
    }
    let (fields, stage) = (hop.responds(&outcome), service.stage.as_ref());
    let context = ResponseContext {
        service,
        cell,
        shard,
        is_head,
        deadline,
        is_client_deadline,
        stage,
        fields,
        upgrade,
    };
    let responding = respond::outcome(client, &context, outcome);
    let responded = match &mut permit {
        None => responding.await,
        Some(permit) => tokio::select! {
            biased;
            responded = responding => responded,
            () = permit.lost() => Err(Cut::Preempted),
        },
    };
    let end = End { service, running, version };
    match responded {
        Ok(Responded { status, outcome, follows: Follows::Stream(body) }) => {
            let sent = (status, outcome);
            let stream = Streaming { body, stage, deadline, sent, end, permit, hop };
            Ok(Rest::Stream(Box::new(stream)))
        }
        Ok(Responded { status, outcome, follows }) => {
            end.record(client, Ok((status, outcome))).await?;
            Ok(match follows {
                Follows::Tunnel(tunnel) => Rest::Tunnel(tunnel),
                _ => Rest::Nothing,
            })
        }
        Err(cut) => end.record(client, Err(cut)).await.map(|()| Rest::Nothing),
    }
}

fn previous_attempts(head: &RequestHead) -> u32 {
    let previous = head.header(PREVIOUS_ATTEMPTS.as_str());
    previous.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok()).unwrap_or(0)
}

/// Sends a query, once it has a slot where a stage stands before the replica. The wait for that is a part of the
/// request's time.
async fn ask(
    cell: &Cell<Http>,
    mut query: Query<Request>,
    place: Option<(&Stage, Priority)>,
    deadline: Instant,
) -> (Option<Permit>, Result<QueryResponse<Response>, QueryError<Response>>) {
    let Some((stage, priority)) = place else { return (None, cell.query(query).await) };
    query.deadline = Some(deadline);
    match timeout_at(deadline, stage.enter_as(priority)).await {
        Ok(Ok(permit)) => {
            let mut permit = permit;
            tokio::select! {
                outcome = cell.query(query) => (Some(permit), outcome),
                // The replica cannot interrupt it, so it is given up: its primary is elsewhere.
                () = permit.lost() => (None, Err(QueryError::GaveWay)),
            }
        }
        Ok(Err(_)) => (None, Err(QueryError::QueueFull)),
        Err(_) => (None, Err(QueryError::Expired)),
    }
}

/// Responds to a request that goes nowhere. The connection ends with it if there is a body: that is not
/// read.
async fn refuse<'a, F: Front>(
    proxy: &Proxy,
    client: &mut F,
    refused: Refused,
) -> Result<Rest<'a>, Cut> {
    let Refused { why, status, text } = refused;
    proxy.metrics.rejected(why, status, &text);
    respond::text(client, status, &text, None, &Fields::default()).await?;
    Ok(Rest::Nothing)
}
