//! Reads and counts the response to one HTTP/2 request.

use h2::client::ResponseFuture;
use http::Method;
use http::header::CONTENT_LENGTH;

use super::grpc::Unary;
use crate::session::fault::Fault;
use crate::session::requests::CallHead;
use crate::session::{Body, Status, Whole};

pub(super) async fn response(
    to: ResponseFuture,
    request: &CallHead,
    mut counted: Body,
) -> Result<Whole, Fault> {
    let (head, mut body) = to.await.map_err(|error| unseen(&error))?.into_parts();
    let mut unary = request.is_grpc.then(Unary::default);
    if let Some(unary) = &mut unary {
        unary.headers(&head.headers);
    }
    let announced = head.headers.get(CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
    // The content-length of a response to HEAD announces no body.
    if let Some(length) = announced.filter(|_| request.method != Method::HEAD) {
        counted.expect(length)?;
    }
    while let Some(data) = body.data().await {
        let data = data.map_err(|error| incomplete(&error))?;
        counted.add(data.len() as u64)?;
        if let Some(unary) = &mut unary {
            unary.data(&data);
        }
        // This fails only if more capacity is released than was received.
        let _ = body.flow_control().release_capacity(data.len());
    }
    if let Some(unary) = &mut unary
        && let Some(trailers) = body.trailers().await.map_err(|error| incomplete(&error))?
    {
        unary.headers(&trailers);
    }
    let status = match &mut unary {
        // A successful call has status 200 and a gRPC status. A response with a 2xx status but
        // without a gRPC status is a fault.
        Some(unary) if head.status.is_success() => unary.status()?,
        _ => Status::Http(head.status.as_u16()),
    };
    Ok(Whole::new(status, counted.bytes))
}

fn incomplete(error: &h2::Error) -> Fault {
    match fault(error) {
        Fault::Closed => Fault::IncompleteMessage,
        fault => fault,
    }
}

/// Maps the `h2` error of a request to a fault, if no part of the response has arrived yet. A
/// GOAWAY ends only requests that the server guarantees not to have processed (RFC 9113 §6.8).
pub(super) fn unseen(error: &h2::Error) -> Fault {
    match fault(error) {
        Fault::Reset(why) if error.is_remote() && error.is_go_away() => Fault::Unprocessed(why),
        fault => fault,
    }
}

pub(super) fn fault(error: &h2::Error) -> Fault {
    let reason =
        error.reason().map_or_else(|| "no reason".to_owned(), |reason| format!("{reason:?}"));
    if error.is_io() {
        Fault::Closed
    } else if error.is_remote() && error.is_go_away() {
        Fault::Reset(format!("GOAWAY, {reason}"))
    } else if error.is_remote() {
        Fault::Reset(format!("RST_STREAM, {reason}"))
    } else {
        Fault::Malformed(format!("the server sent invalid HTTP/2: {error}"))
    }
}
