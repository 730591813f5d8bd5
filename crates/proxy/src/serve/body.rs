//! Receives the body of a request. A short body is read before a replica is chosen, so that a slow
//! client holds no slot, and can be sent again. A long one is relayed while it arrives.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use curtail_http::Pieces;
use curtail_http::h1::server::ServerError;
use curtail_http::h1::{Framing, Reject, RequestHead};
use curtail_runtime::http::{Budget, Buffered, Charge, Commit, Payload, Protocol};
use tokio::time::{sleep, timeout};

use super::front::{Cut, Front, Upload, unless_closed};
use crate::config;
use crate::route::Target;

/// Number of bytes of a request that wait for a slow replica.
const UPLOAD_BUFFER: usize = 64 << 10;

/// Time between two looks at a budget that is spent.
const RECHECK: Duration = Duration::from_millis(5);

/// A body, and what it takes of the budget.
pub(super) struct Received {
    pub(super) payload: Payload,
    pub(super) charge: Option<Charge>,
}

impl From<Payload> for Received {
    fn from(payload: Payload) -> Self {
        Self { payload, charge: None }
    }
}

/// Waits until the budget has room for another body. Returns false if that takes too long.
pub(super) async fn wait_for_room<F: Front>(
    client: &mut F,
    budget: &Budget,
    most: Duration,
) -> Result<bool, Cut> {
    let room = async {
        while budget.is_spent() {
            sleep(RECHECK).await;
        }
    };
    Ok(unless_closed(client, timeout(most, room)).await?.is_ok())
}

/// Receives a body, or prepares to relay it. A body that is relayed can be neither repeated nor
/// duplicated.
pub(super) async fn receive<F: Front>(
    client: &mut F,
    budget: &Budget,
    service: &config::Service,
    target: &Target,
    head: &RequestHead,
) -> Result<Received, ServerError> {
    let (limit, replay) = (service.max_request_body, service.replay_bytes);
    let length = match head.framing() {
        Framing::Empty => return Ok(Payload::from(Bytes::new()).into()),
        Framing::Length(bytes) => Some(bytes),
        Framing::Chunked | Framing::UntilClose => None,
    };
    let repeats = target.commit == Commit::End || target.idempotent;
    if length.is_some_and(|length| usize::try_from(length).map_or(true, |all| all > limit)) {
        return Err(Reject::BodyTooLarge(limit).into());
    }
    // A client of gRPC may wait for a response before it sends more.
    let is_dialog = !repeats && service.protocol == Protocol::Http2 && length.is_none();
    let is_short = length.is_none_or(|length| length <= replay) && !is_dialog;
    let charge = if is_short { budget.take(length.unwrap_or(0) as usize) } else { None };
    let mut pieces = Pieces::default();
    if let Some(mut charge) = charge {
        while pieces.length() as u64 <= replay && (length.is_some() || !budget.is_spent()) {
            match poll_fn(|context| client.poll_body(limit, context)).await? {
                Some(piece) => pieces.push(piece, usize::MAX),
                None => {
                    let payload = pieces.join().into();
                    return Ok(Received { payload, charge: Some(charge) });
                }
            };
            charge.set(pieces.length().max(length.unwrap_or(0) as usize));
        }
    } else if service.protocol == Protocol::Http2
        && let Some(body) = client.take_body()
    {
        return Ok(Payload::once(body, length).into());
    }
    let Buffered { sender, payload } = Payload::buffered(UPLOAD_BUFFER, length, budget);
    if pieces.length() > 0 {
        sender.send(pieces.join());
    }
    *client.upload() = Some(Upload { sender, limit });
    Ok(payload.into())
}
