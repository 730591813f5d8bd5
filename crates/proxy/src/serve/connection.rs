//! One client's connection: its requests, one after the other.
//!
//! A client that closes its sending half is taken to have left: on the wire nothing tells it from
//! one that is gone, and what is worked on for those who are gone is taken from those who wait.

use curtail_http1::Version;
use curtail_http1::server::{Connection, Request, ServerError};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::forward::{self, Ends, Forward};
use super::reply::{self, Cut, Told};
use crate::metrics::Rejection;
use crate::route::Target;
use crate::state::Proxy;

pub(super) type Client = Connection<TcpStream>;

pub(super) async fn serve(proxy: &Proxy, stream: TcpStream, mut draining: watch::Receiver<bool>) {
    let ends = Ends::of(&stream);
    let mut client = Connection::new(stream, proxy.limits, proxy.timeouts);
    loop {
        match next(&mut client, &mut draining).await {
            Ok(Some(request)) => {
                if !handle(proxy, &mut client, request, (ends, &draining)).await {
                    return;
                }
            }
            Ok(None) => break,
            Err(ServerError::Reject(reject)) => {
                proxy.metrics.rejected(&reject);
                tracing::debug!(status = reject.status(), why = %reject, "request refused");
                if client.reject(&reject).await.is_err() {
                    return;
                }
                break;
            }
            Err(error) => {
                tracing::debug!(%error, "client connection ended");
                return;
            }
        }
        if client.is_closing() {
            break;
        }
    }
    client.close().await;
}

/// The next request. None when none will come: a proxy that drains waits for no new ones, but for
/// the rest of one that has begun.
async fn next(
    client: &mut Client,
    draining: &mut watch::Receiver<bool>,
) -> Result<Option<Request>, ServerError> {
    let mut told = false;
    loop {
        tokio::select! {
            // What has arrived comes first: closing before it is read would lose it.
            biased;
            request = client.next_request() => return request,
            _ = draining.wait_for(|draining| *draining), if !told => told = true,
        }
        if client.is_idle() {
            return Ok(None);
        }
        client.close_after_answer();
    }
}

/// Answers a request; false when the connection is of no further use.
async fn handle(
    proxy: &Proxy,
    client: &mut Client,
    request: Request,
    (ends, draining): (Ends, &watch::Receiver<bool>),
) -> bool {
    let (target, Forward { query }) = match prepare(proxy, &request, ends) {
        Ok(ready) => ready,
        Err((why, status, text)) => {
            proxy.metrics.rejected(why);
            return reply::text(client, status, &text, None).await.is_ok();
        }
    };
    let service = &proxy.services[target.service];
    let deadline = Instant::now() + service.config.timeout;
    let (is_head, version) = (request.head.is_head(), request.head.version());
    // Bodies wait in the rendered request from here on.
    drop(request);
    let (cell, group) = service.shard(target.shard);
    let mut asked = cell.query(query.to_group(group));
    let outcome = tokio::select! {
        outcome = &mut asked => outcome,
        () = client.departed() => {
            // Dropping the query abandons it.
            tracing::debug!(service = service.config.name, "client left");
            return false;
        }
    };
    if *draining.borrow() {
        client.close_after_answer();
    }
    let told = Told { service, cell, is_head, deadline };
    match reply::outcome(client, &told, outcome).await {
        Ok(status) => {
            service.metrics.responded(status);
            true
        }
        Err(cut) => {
            tracing::debug!(%cut, service = service.config.name, "answer cut off");
            if version == Version::Http10 && matches!(cut, Cut::Replica | Cut::Timeout) {
                // The body may last until the close, which must then not look like one.
                let _ = client.stream().set_zero_linger();
            }
            false
        }
    }
}

/// Where a request goes, and as what; or what its client is told instead.
fn prepare(
    proxy: &Proxy,
    request: &Request,
    ends: Ends,
) -> Result<(Target, Forward), (Rejection, u16, String)> {
    let head = &request.head;
    let lookup = |name: &str| head.header(name);
    let target = proxy
        .router
        .route(head.method(), head.path_and_query(), lookup)
        .map_err(|error| (error.why.into(), error.status(), error.to_string()))?;
    let most = proxy.services[target.service].config.max_request_body;
    if request.body.len() > most {
        let text =
            format!("the body is longer than this service's max_request_body of {most} bytes");
        return Err((Rejection::BodyTooLarge, 413, text));
    }
    let forward = forward::render(request, &target, ends).map_err(|error| {
        (Rejection::Malformed, 400, format!("the request cannot be passed on: {error}"))
    })?;
    Ok((target, forward))
}
