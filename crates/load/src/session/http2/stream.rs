//! One request of HTTP/2, and what has come of its answer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use h2::RecvStream;
use h2::client::ResponseFuture;
use http::Method;
use http::header::CONTENT_LENGTH;

use super::grpc::Unary;
use crate::session::fault::Fault;
use crate::session::requests::Call;
use crate::session::{Status, Whole};

#[derive(Debug)]
pub(super) struct Stream {
    phase: Phase,
    status: u16,
    body_bytes: u64,
    /// The request was a HEAD, whose answer has no body, whatever it announces.
    to_head: bool,
    /// What is special about gRPC.
    unary: Option<Unary>,
}

#[derive(Debug)]
enum Phase {
    Head(ResponseFuture),
    Body(RecvStream),
}

impl Stream {
    pub(super) fn new(response: ResponseFuture, call: &Call) -> Stream {
        Stream {
            phase: Phase::Head(response),
            status: 0,
            body_bytes: 0,
            to_head: call.head.method == Method::HEAD,
            unary: call.head.is_grpc.then(Unary::default),
        }
    }

    /// Takes what has come; the answer, once it is whole.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        body_bytes_max: u64,
    ) -> Poll<Result<Whole, Fault>> {
        loop {
            match &mut self.phase {
                Phase::Head(response) => {
                    let head = ready!(Pin::new(response).poll(context)).map_err(|e| unseen(&e))?;
                    let (head, body) = head.into_parts();
                    self.status = head.status.as_u16();
                    if let Some(unary) = &mut self.unary {
                        unary.headers(&head.headers);
                    }
                    // What is announced is not waited for where it is too much.
                    let announced = head.headers.get(CONTENT_LENGTH);
                    let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
                    let too_large = announced.is_some_and(|length: u64| length > body_bytes_max);
                    if too_large && !self.to_head {
                        return Poll::Ready(Err(Fault::TooLarge { limit: body_bytes_max }));
                    }
                    self.phase = Phase::Body(body);
                }
                Phase::Body(body) => {
                    if let Some(data) = ready!(body.poll_data(context)) {
                        let data = data.map_err(|error| half(&error))?;
                        self.body_bytes += data.len() as u64;
                        if self.body_bytes > body_bytes_max {
                            return Poll::Ready(Err(Fault::TooLarge { limit: body_bytes_max }));
                        }
                        if let Some(unary) = &mut self.unary {
                            unary.data(&data);
                        }
                        // Fails only for more than has come.
                        let _ = body.flow_control().release_capacity(data.len());
                        continue;
                    }
                    if let Some(unary) = &mut self.unary {
                        let trailers = ready!(body.poll_trailers(context));
                        if let Some(trailers) = trailers.map_err(|error| half(&error))? {
                            unary.headers(&trailers);
                        }
                    }
                    return Poll::Ready(self.whole());
                }
            }
        }
    }

    fn whole(&mut self) -> Result<Whole, Fault> {
        let status = match &mut self.unary {
            // A call goes well with 200 only, and then has a status of its own; with another 2xx it
            // has none.
            Some(unary) if (200..300).contains(&self.status) => unary.status()?,
            _ => Status::Http(self.status),
        };
        Ok(Whole { status, head: None, body_bytes: self.body_bytes })
    }

    /// True if some of the answer has come.
    pub(super) fn has_begun(&self) -> bool {
        matches!(self.phase, Phase::Body(_))
    }
}

/// What an error of `h2` means for a request that has some of its answer.
fn half(error: &h2::Error) -> Fault {
    match fault(error) {
        Fault::Closed => Fault::HalfAnswer,
        fault => fault,
    }
}

/// What an error of `h2` means for a request that has nothing of its answer. A GOAWAY ends only
/// requests that the server says it has not looked at (RFC 9113 §6.8).
pub(super) fn unseen(error: &h2::Error) -> Fault {
    match fault(error) {
        Fault::Reset(why) if error.is_remote() && error.is_go_away() => Fault::Unprocessed(why),
        fault => fault,
    }
}

/// What an error of `h2` means for a request.
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
        Fault::Malformed(format!("what the server sent is not HTTP/2: {error}"))
    }
}
