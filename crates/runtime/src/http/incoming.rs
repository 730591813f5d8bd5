//! A response that is being received, over HTTP/1.1 or HTTP/2.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use curtail_http::Pieces;
use curtail_http::h1::{BadResponse, BodyLength, Limits, ResponseHead, write_request_of_lines};
use curtail_http::h2::{Outgoing, response_head, to_request};
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};
use http::HeaderMap;

use super::message::{Once, Payload, Request};
use super::multiplexed::Link;
use super::pool::{Pool, PooledStream};
use super::send_error::SendError;
use super::tunnel::Tunnel;
use super::upload::{Http1, Upload};
use crate::failure::Failure;

/// The body of a response. Dropping it before its end closes the connection, or resets the stream.
pub(super) enum Incoming {
    Http1 {
        stream: PooledStream,
        pool: Pool,
        upload: Option<Box<Http1Upload>>,
    },
    Http2 {
        body: RecvStream,
        /// The body of the request, if it is relayed while it arrives.
        upload: Option<Box<(Upload, SendStream<Bytes>)>>,
        /// Keeps the place on the connection.
        _link: Link,
    },
    /// The server has switched to the protocol of the request.
    Tunnel(Box<Tunnel>),
}

impl Incoming {
    pub(super) async fn http1(
        mut stream: PooledStream,
        pool: &Pool,
        request: &Request,
        more: &[u8],
    ) -> Result<(Self, ResponseHead), SendError> {
        let mut text = std::mem::take(&mut stream.text);
        let (method, target) = (request.method(), request.target());
        let lines = [request.lines(), more];
        if let Some(protocol) = request.upgrade() {
            let more = [more, b"connection: upgrade\r\nupgrade: ", protocol.as_bytes(), b"\r\n"];
            let lines = [request.lines(), &more.concat()];
            write_request_of_lines(&mut text, method, target, lines, BodyLength::None);
            // Rare, and large: in the future itself, it would be moved with every copy.
            return Box::pin(Self::http1_upgrade(stream, pool, &text, protocol)).await;
        }
        let head = match request.body() {
            Payload::Whole(body) => {
                let length = BodyLength::Known(body.len() as u64);
                write_request_of_lines(&mut text, method, target, lines, length);
                text.extend_from_slice(body);
                stream.send(&text, request.is_head()).await?
            }
            Payload::Once(once) => {
                let length = once.length.map_or(BodyLength::Chunked, BodyLength::Known);
                write_request_of_lines(&mut text, method, target, lines, length);
                return Self::http1_upload(stream, pool, &text, request.is_head(), once).await;
            }
        };
        text.clear();
        stream.text = text;
        Ok((Self::Http1 { stream, pool: pool.clone(), upload: None }, head))
    }

    async fn http1_upgrade(
        mut stream: PooledStream,
        pool: &Pool,
        text: &[u8],
        protocol: &str,
    ) -> Result<(Self, ResponseHead), SendError> {
        stream.start(text, false).await?;
        stream.permit_upgrade();
        stream.end_body();
        let head = poll_fn(|context| stream.poll_head(context)).await?;
        if !stream.is_tunnel() {
            return Ok((Self::Http1 { stream, pool: pool.clone(), upload: None }, head));
        }
        let named = head.header("upgrade").unwrap_or_default();
        if !named.eq_ignore_ascii_case(protocol.as_bytes()) {
            return Err(SendError::Failed(Failure::BadResponse(BadResponse::Upgrade)));
        }
        Ok((Self::Tunnel(Box::new(Tunnel::http1(stream))), head))
    }

    async fn http1_upload(
        mut stream: PooledStream,
        pool: &Pool,
        text: &[u8],
        is_head: bool,
        once: &Once,
    ) -> Result<(Self, ResponseHead), SendError> {
        stream.start(text, is_head).await?;
        let source = once.take().ok_or(SendError::Failed(Failure::Unsendable))?;
        let mut upload = Http1Upload { upload: Upload::new(source), left: once.length };
        let head = poll_fn(|context| {
            if let Err(failure) = upload.advance(&mut stream, context) {
                return Poll::Ready(Err(SendError::Failed(failure)));
            }
            stream.poll_head(context).map_err(SendError::from)
        });
        match head.await {
            Ok(head) => {
                upload.upload.commit();
                let upload = Some(Box::new(upload));
                Ok((Self::Http1 { stream, pool: pool.clone(), upload }, head))
            }
            Err(error) => {
                once.put_back(upload.upload.into_source());
                Err(error)
            }
        }
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
            lines: [request.lines(), more],
            length: match request.body() {
                Payload::Whole(body) => Some(body.len() as u64),
                Payload::Once(once) => once.length,
            },
            protocol: request.upgrade(),
        };
        let message = to_request(&outgoing).map_err(|_| SendError::Failed(Failure::Unsendable))?;
        let upgrades = outgoing.protocol.is_some();
        let ends = outgoing.length == Some(0) && !upgrades;
        let (mut response, mut sink) = link.send(message, ends).await?;
        if upgrades {
            return Self::http2_upgrade(link, response, sink, limits).await;
        }
        let mut upload = None;
        match request.body() {
            Payload::Whole(_) if ends => {}
            Payload::Whole(body) => {
                // A server may respond before it has received the whole body.
                let _ = sink.send_data(body.clone(), true);
            }
            Payload::Once(once) => {
                let source = once.take().ok_or(SendError::Failed(Failure::Unsendable))?;
                upload = Some(Box::new((Upload::new(source), sink)));
            }
        }
        let response = poll_fn(|context| {
            if let Some((upload, sink)) = upload.as_deref_mut() {
                // If it fails, the stream is reset.
                let _ = upload.advance(sink, context);
            }
            Pin::new(&mut response).poll(context)
        });
        let response = match response.await {
            Ok(response) => response,
            Err(error) => {
                let error = failed(&error, &link);
                if let (SendError::Unsent, Payload::Once(once), Some(upload)) =
                    (&error, request.body(), upload)
                {
                    once.put_back(upload.0.into_source());
                }
                return Err(error);
            }
        };
        if let Some((upload, _)) = upload.as_deref_mut() {
            upload.commit();
        }
        let (parts, body) = response.into_parts();
        let (to_head, ends) = (request.is_head(), body.is_end_stream());
        let head = response_head(&parts, to_head, ends, limits);
        let head = head.map_err(|why| SendError::Failed(Failure::BadResponse(why)))?;
        Ok((Self::Http2 { body, upload, _link: link }, head))
    }

    async fn http2_upgrade(
        link: Link,
        response: ResponseFuture,
        mut sink: SendStream<Bytes>,
        limits: &Limits,
    ) -> Result<(Self, ResponseHead), SendError> {
        let response = response.await.map_err(|error| failed(&error, &link))?;
        let (parts, body) = response.into_parts();
        let head = response_head(&parts, false, body.is_end_stream(), limits);
        let head = head.map_err(|why| SendError::Failed(Failure::BadResponse(why)))?;
        if parts.status.is_success() {
            let stream = curtail_http::h2::Tunnel::new(Some(body), sink);
            return Ok((Self::Tunnel(Box::new(Tunnel::http2(stream, link))), head));
        }
        // If it fails, the stream has ended.
        let _ = sink.send_data(Bytes::new(), true);
        Ok((Self::Http2 { body, upload: None, _link: link }, head))
    }

    /// Polls for the next piece of the body, or `None` after its end.
    pub(super) fn poll_body(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        let body = match self {
            Self::Http1 { stream, upload, .. } => {
                if let Some(upload) = upload {
                    upload.advance(stream, context)?;
                }
                return stream.poll_body(context).map_err(Failure::from);
            }
            Self::Http2 { body, upload, .. } => {
                if let Some((upload, sink)) = upload.as_deref_mut() {
                    upload.advance(sink, context)?;
                }
                body
            }
            Self::Tunnel(_) => return Poll::Ready(Ok(None)),
        };
        Poll::Ready(match ready!(body.poll_data(context)) {
            Some(Ok(data)) => {
                // A stream that has ended needs no more capacity.
                let _ = body.flow_control().release_capacity(data.len());
                Ok(Some(data))
            }
            Some(Err(error)) => Err(incomplete(&error)),
            None => Ok(None),
        })
    }

    /// Returns the rest of the body, or the part that has arrived when more than `limit` bytes have.
    /// Returns whether it is the whole rest.
    pub(super) async fn body_up_to(&mut self, limit: usize) -> Result<(Bytes, bool), Failure> {
        let mut pieces = Pieces::default();
        while pieces.length() <= limit {
            match poll_fn(|context| self.poll_body(context)).await? {
                Some(piece) => pieces.push(piece, usize::MAX),
                None => return Ok((pieces.join(), true)),
            };
        }
        Ok((pieces.join(), false))
    }

    /// Returns the rest of the body in one piece.
    pub(super) async fn body_all(&mut self, limit: usize) -> Result<Bytes, Failure> {
        match self.body_up_to(limit).await? {
            (body, true) => Ok(body),
            (_, false) => Err(Failure::BodyTooLarge(limit)),
        }
    }

    /// Returns whether bytes have been received that [`poll_body`](Self::poll_body) has not returned.
    pub(super) fn has_buffered(&self) -> bool {
        match self {
            Self::Http1 { stream, .. } => stream.has_buffered(),
            Self::Tunnel(_) => false,
            // The crate `h2` does not show it.
            Self::Http2 { .. } => true,
        }
    }

    /// Polls for the trailers, after the end of the body. HTTP/1.1 has none here.
    pub(super) fn poll_trailers(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Box<HeaderMap>>, Failure>> {
        match self {
            Self::Http1 { .. } | Self::Tunnel(_) => Poll::Ready(Ok(None)),
            Self::Http2 { body, .. } => {
                let trailers = ready!(body.poll_trailers(context));
                let trailers = trailers.map(|trailers| trailers.map(Box::new));
                Poll::Ready(trailers.map_err(|error| incomplete(&error)))
            }
        }
    }

    /// Keeps the connection for other requests.
    pub(super) fn release(self) {
        if let Self::Http1 { stream, pool, .. } = self {
            pool.put_back(stream);
        }
    }
}

/// A body that is relayed over HTTP/1.1 while it arrives.
pub(super) struct Http1Upload {
    upload: Upload,
    /// The number of bytes that are still to be sent, if it is known.
    left: Option<u64>,
}

impl Http1Upload {
    fn advance(
        &mut self,
        stream: &mut PooledStream,
        context: &mut Context<'_>,
    ) -> Result<(), Failure> {
        self.upload.advance(&mut Http1 { stream, left: &mut self.left }, context)
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
        _ => SendError::Failed(Failure::of_http2(error)),
    }
}

/// Why a body has no end.
fn incomplete(error: &h2::Error) -> Failure {
    if error.is_io() { Failure::Incomplete } else { Failure::of_http2(error) }
}
