//! One client's connection: its requests, one after the other.

use curtail_http1::server::{Connection, Request, ServerError};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::forward::{self, Forward};
use super::reply::{self, Told};
use crate::metrics::Rejection;
use crate::state::Proxy;

pub(super) type Client = Connection<TcpStream>;

pub(super) async fn serve(proxy: &Proxy, stream: TcpStream, mut draining: watch::Receiver<bool>) {
    let peer = stream.peer_addr().ok().map(|address| address.ip());
    let mut client = Connection::new(stream, proxy.limits, proxy.timeouts);
    loop {
        let request = tokio::select! {
            request = client.next_request() => request,
            _ = draining.wait_for(|draining| *draining), if client.is_idle() => break,
        };
        match request {
            Ok(Some(request)) => {
                if *draining.borrow() {
                    client.close_after_answer();
                }
                if !handle(proxy, &mut client, request, peer).await {
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

/// Answers a request; false when the connection is of no further use.
async fn handle(
    proxy: &Proxy,
    client: &mut Client,
    request: Request,
    peer: Option<std::net::IpAddr>,
) -> bool {
    let head = &request.head;
    let lookup = |name: &str| head.header(name);
    let target = match proxy.router.route(head.method(), head.path_and_query(), lookup) {
        Ok(target) => target,
        Err(error) => {
            proxy.metrics.rejected(error.why);
            let text = error.to_string();
            return reply::text(client, error.status(), &text, None).await.is_ok();
        }
    };
    let service = &proxy.services[target.service];
    if request.body.len() > service.config.max_request_body {
        proxy.metrics.rejected(Rejection::BodyTooLarge);
        let text = format!(
            "the body is longer than this service's max_request_body of {} bytes",
            service.config.max_request_body
        );
        return reply::text(client, 413, &text, None).await.is_ok();
    }
    let forward = match forward::render(&request, &target, peer) {
        Ok(forward) => forward,
        Err(error) => {
            let text = format!("the request cannot be passed on: {error}");
            return reply::text(client, 400, &text, None).await.is_ok();
        }
    };
    let deadline = Instant::now() + service.config.timeout;
    let is_head = head.is_head();
    // Bodies wait in the rendered request from here on.
    drop(request);
    let Forward { query } = forward;
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
    let told = Told { service, cell, is_head, deadline };
    match reply::outcome(client, &told, outcome).await {
        Ok(status) => {
            service.metrics.responded(status);
            true
        }
        Err(error) => {
            tracing::debug!(%error, service = service.config.name, "answer cut off");
            false
        }
    }
}
