//! The part of a request that may last long: the rest of a response that arrives slowly.
//!
//! Each event of a stream resumes the task. What that touches is here, apart from the handler,
//! whose future is large: hundreds of streams displace each other from the cache.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use curtail_http::h1::Version;
use curtail_http::h1::server::ServerError;
use curtail_http::{Pieces, Timer};
use curtail_runtime::http::BodyReceiver;
use curtail_runtime::stage::{Permit, Stage};
use tokio::time::Instant;

use super::front::{Cut, Front, unless_closed};
use super::respond;
use super::tunnel::Tunnel;
use crate::metrics::{RequestOutcome, RunningRequest};
use crate::sidecar::Hop;
use crate::state::Service;

/// What remains to be done for a request whose handler has returned.
pub(super) enum Rest<'a> {
    Nothing,
    Stream(Box<Streaming<'a>>),
    Tunnel(Tunnel),
}

/// A response whose head has been sent, and whose body arrives.
pub(super) struct Streaming<'a> {
    pub(super) body: BodyReceiver,
    /// The stage before the replica, which counts what leaves.
    pub(super) stage: Option<&'a Stage>,
    /// When the whole response must have been relayed.
    pub(super) deadline: Instant,
    /// The status, and how the request ends if the response arrives in full.
    pub(super) sent: (u16, RequestOutcome),
    pub(super) end: End<'a>,
    /// The slot at the stage.
    pub(super) permit: Option<Permit>,
    /// Kept until the end, for the calls that the response belongs to.
    pub(super) hop: Hop<'a>,
}

/// What the end of a request needs.
pub(super) struct End<'a> {
    pub(super) service: &'a Service,
    pub(super) running: RunningRequest<'a>,
    pub(super) version: Version,
}

impl Streaming<'_> {
    /// Relays the body, and ends the request.
    pub(super) async fn run<F: Front>(mut self: Box<Self>, client: &mut F) -> Result<(), Cut> {
        let relayed = self.relay(client).await;
        let Self { sent, end, permit, hop, body, .. } = *self;
        drop(body);
        let ended = end.record(client, relayed.map(|()| sent)).await;
        drop((permit, hop));
        ended
    }

    async fn relay<F: Front>(&mut self, client: &mut F) -> Result<(), Cut> {
        let Self { body, stage, deadline, permit, .. } = self;
        let mut relaying = pin!(relay(client, body, *stage));
        let mut lost = pin!(async {
            match permit {
                Some(permit) => permit.lost().await,
                None => pending().await,
            }
        });
        let mut timer = Timer::default();
        poll_fn(|context| {
            if let Poll::Ready(relayed) = relaying.as_mut().poll(context) {
                return Poll::Ready(relayed);
            }
            // A client that does not read holds the slot of the replica no longer.
            if timer.poll_passed(*deadline, context) {
                return Poll::Ready(Err(Cut::Timeout));
            }
            lost.as_mut().poll(context).map(|()| Err(Cut::Preempted))
        })
        .await
    }
}

impl End<'_> {
    /// Records how a request ended. A response that is incomplete is cut off.
    pub(super) async fn record<F: Front>(
        self,
        client: &mut F,
        sent: Result<(u16, RequestOutcome), Cut>,
    ) -> Result<(), Cut> {
        match sent {
            Ok((status, outcome)) => {
                self.service.metrics.responded(status);
                self.running.ended(outcome);
                Ok(())
            }
            Err(cut) => {
                tracing::debug!(%cut, service = self.service.config.name, "response cut off");
                self.running.ended(cut.outcome());
                cut_off(client, &cut, self.version).await;
                Err(cut)
            }
        }
    }
}

/// Ends a response that is incomplete. The body of HTTP/1.0 may last until the close, which must then not
/// look like one. HTTP/1.1 shows by its framing that the response is incomplete.
async fn cut_off<F: Front>(client: &mut F, cut: &Cut, version: Version) {
    if client.is_grpc() && matches!(cut, Cut::Timeout) {
        // If it fails, the client has left.
        let _ = client.finish_body(Some(respond::late())).await;
    } else if version != Version::Http11
        && matches!(cut, Cut::Replica | Cut::Timeout | Cut::Preempted)
    {
        client.reset();
    }
}

async fn relay<F: Front>(
    client: &mut F,
    body: &mut BodyReceiver,
    stage: Option<&Stage>,
) -> Result<(), Cut> {
    // Only references to the pieces are passed on: each future that holds them would copy them, to memory
    // that no cache holds when there are many streams.
    let mut pieces = Pieces::default();
    let mut next = poll_fn(|polling| Poll::Ready(body.poll_into(&mut pieces, polling))).await;
    // Whether the copy has been polled since this task waited, and will resume it.
    let mut is_polled = true;
    loop {
        let received = match next {
            Poll::Ready(received) => received,
            Poll::Pending => {
                // The head has not been sent, because it leaves together with the first bytes if
                // they are here.
                is_polled &= at_once(client.flush(), |_| {}).await?;
                // A replica may be silent for long, and no other check would notice that the client
                // has left.
                let next = poll_fn(|polling| match std::mem::take(&mut is_polled) {
                    true => Poll::Pending,
                    false => body.poll_into(&mut pieces, polling),
                });
                unless_closed(client, next).await?
            }
        };
        let Ok(has_more) = received else {
            client.flush().await?;
            // The client sees that the response is incomplete, because its last chunk is missing.
            return Err(Cut::Replica);
        };
        if !has_more {
            break;
        }
        if let Some(stage) = stage {
            stage.did(pieces.length() as u64);
        }
        // While the client does not read, the copy fills the buffer, and ends.
        let written = at_once(client.write_body(&mut pieces), |polling| body.advance(polling));
        is_polled = written.await? && body.is_drained();
        // A stream may be silent for long, and should hold no buffer meanwhile.
        pieces = Pieces::default();
        next = Poll::Pending;
    }
    client.finish_body(body.trailers()).await?;
    Ok(())
}

/// Awaits a write. Calls `meanwhile` whenever it has to wait, and returns whether it never had to.
async fn at_once(
    write: impl Future<Output = Result<(), ServerError>>,
    mut meanwhile: impl FnMut(&mut Context<'_>),
) -> Result<bool, ServerError> {
    let (mut write, mut at_once) = (pin!(write), true);
    poll_fn(|polling| {
        let written = write.as_mut().poll(polling);
        if written.is_pending() {
            at_once = false;
            meanwhile(polling);
        }
        written
    })
    .await?;
    Ok(at_once)
}
