//! A response that is being received, over HTTP/1.1 or HTTP/2.

use bytes::{Bytes, BytesMut};
use curtail_http::h1::client::ClientError;
use curtail_http::h1::{BadResponse, Limits, ResponseHead, write_request_of_lines};
use curtail_http::h2::{Outgoing, response_head, to_request};
use h2::RecvStream;
use http::HeaderMap;

use super::message::Request;
use super::multiplexed::Link;
use super::pool::{Pool, PooledStream};
use crate::failure::Failure;

/// Why a request has no response.
#[derive(Debug)]
pub(super) enum SendError {
    /// The server has not processed the request and will not.
    Unsent,
    /// The connection ended before the response, so the server may have processed the request.
    Closed,
    Failed(Failure),
}

impl From<ClientError> for SendError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Unsent => Self::Unsent,
            ClientError::Closed => Self::Closed,
            error => Self::Failed(error.into()),
        }
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Unsent => Self::ConnectFailed(std::io::ErrorKind::NotConnected),
            SendError::Closed => Self::Reset,
            SendError::Failed(failure) => failure,
        }
    }
}

/// The body of a response. Dropping it before its end closes the connection, or resets the stream.
#[expect(clippy::large_enum_variant, reason = "no allocation for a request of HTTP/1.1")]
pub(super) enum Incoming {
    Http1 {
        stream: PooledStream,
        pool: Pool,
    },
    Http2 {
        body: RecvStream,
        /// Keeps the place on the connection.
        _link: Link,
    },
}

impl Incoming {
    pub(super) async fn http1(
        mut stream: PooledStream,
        pool: &Pool,
        request: &Request,
        more: &[u8],
    ) -> Result<(Self, ResponseHead), SendError> {
        let mut text = std::mem::take(&mut stream.text);
        let line = (request.method(), request.target());
        let length = request.body.len() as u64;
        write_request_of_lines(&mut text, line, [&request.lines, more], length);
        text.extend_from_slice(&request.body);
        let head = stream.send(&text, request.is_head()).await?;
        text.clear();
        stream.text = text;
        Ok((Self::Http1 { stream, pool: pool.clone() }, head))
    }

    pub(super) async fn http2(
        link: Link,
        request: &Request,
        more: &[u8],
        secure: bool,
        limits: &Limits,
    ) -> Result<(Self, ResponseHead), SendError> {
        let outgoing = Outgoing {
            method: request.method(),
            target: request.target(),
            secure,
            lines: [&request.lines, more],
            length: request.body.len() as u64,
        };
        let message = to_request(&outgoing).map_err(|_| SendError::Failed(Failure::Unsendable))?;
        let mut sender = link.sender().ready().await.map_err(|_| {
            link.close();
            SendError::Unsent
        })?;
        let ends = request.body.is_empty();
        let (response, mut sending) = sender.send_request(message, ends).map_err(|_| {
            link.close();
            SendError::Unsent
        })?;
        if !ends {
            // A server may respond before it has received the whole body.
            let _ = sending.send_data(request.body.clone(), true);
        }
        let response = response.await.map_err(|error| failed(&error, &link))?;
        let (parts, body) = response.into_parts();
        let (to_head, ends) = (request.is_head(), body.is_end_stream());
        let head = response_head(&parts, to_head, ends, limits);
        let head = head.map_err(|why| SendError::Failed(Failure::BadResponse(why)))?;
        Ok((Self::Http2 { body, _link: link }, head))
    }

    /// Returns the next piece of the body, or `None` after its end. Cancel safe.
    pub(super) async fn body(&mut self) -> Result<Option<Bytes>, Failure> {
        match self {
            Self::Http1 { stream, .. } => Ok(stream.body().await?),
            Self::Http2 { body, .. } => match body.data().await {
                Some(Ok(data)) => {
                    // A stream that has ended needs no more capacity.
                    let _ = body.flow_control().release_capacity(data.len());
                    Ok(Some(data))
                }
                Some(Err(error)) => Err(incomplete(&error)),
                None => Ok(None),
            },
        }
    }

    /// Returns the rest of the body in one piece.
    pub(super) async fn body_all(&mut self, limit: usize) -> Result<Bytes, Failure> {
        if let Self::Http1 { stream, .. } = self {
            return Ok(stream.body_all(limit).await?);
        }
        let mut whole = BytesMut::new();
        while let Some(piece) = self.body().await? {
            if whole.len() + piece.len() > limit {
                return Err(Failure::BodyTooLarge(limit));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// Returns the trailers, after the end of the body. HTTP/1.1 has none here.
    pub(super) async fn trailers(&mut self) -> Result<Option<Box<HeaderMap>>, Failure> {
        match self {
            Self::Http1 { .. } => Ok(None),
            Self::Http2 { body, .. } => match body.trailers().await {
                Ok(trailers) => Ok(trailers.map(Box::new)),
                Err(error) => Err(incomplete(&error)),
            },
        }
    }

    /// Keeps the connection for other requests.
    pub(super) fn release(self) {
        if let Self::Http1 { stream, pool } = self {
            pool.put_back(stream);
        }
    }
}

/// Why there is no head of a response.
fn failed(error: &h2::Error, link: &Link) -> SendError {
    if error.is_go_away() && error.is_remote() {
        // The server names the last stream that it processes, and this stream comes after it
        // (RFC 9113 §6.8).
        link.close();
        return SendError::Unsent;
    }
    match error.reason() {
        Some(h2::Reason::REFUSED_STREAM) if error.is_remote() => SendError::Unsent,
        _ if error.is_io() => {
            link.close();
            SendError::Closed
        }
        _ => SendError::Failed(failure(error)),
    }
}

/// Why a body has no end.
fn incomplete(error: &h2::Error) -> Failure {
    if error.is_io() { Failure::Incomplete } else { failure(error) }
}

/// The failure that an error of HTTP/2 means.
pub(super) fn failure(error: &h2::Error) -> Failure {
    match error.reason() {
        Some(reason) if error.is_reset() && error.is_remote() => {
            Failure::StreamReset(reason.into())
        }
        Some(_) => Failure::BadResponse(BadResponse::NotHttp),
        None => error.get_io().map_or(Failure::Reset, |error| Failure::Io(error.kind())),
    }
}
