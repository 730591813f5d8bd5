//! Requests and responses, for all versions of HTTP. A long response is streamed from its server to a
//! client that may be slow or gone.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::{Bytes, BytesMut};
use curtail_http::h1::{HeaderLines, ResponseHead, WriteError, check_request_line, write_lines};
use curtail_kernel::ServerId;
use h2::RecvStream;
use http::HeaderMap;
use tokio::sync::mpsc;

use super::upload::Source;
use crate::failure::Failure;

/// A request. It is rendered for each copy where the copy is sent, so clones are cheap and copies
/// may differ.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method and the target, one after the other.
    line: Bytes,
    method_length: usize,
    /// `name: value` lines, without the fields that frame the message.
    pub(super) lines: Bytes,
    pub(super) body: Payload,
    pub(super) may_repeat: bool,
    pub(super) is_unary: bool,
    pub(super) watch: Option<Arc<dyn Watch>>,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub enum Payload {
    /// A complete body, which every copy can send.
    Whole(Bytes),
    /// A body that is relayed while it arrives, to one server and only over HTTP/2. It is sent again
    /// only if a server has announced that it has not processed the request.
    Once(Arc<Mutex<Option<Source>>>),
}

impl From<Bytes> for Payload {
    fn from(body: Bytes) -> Self {
        Self::Whole(body)
    }
}

impl From<&'static str> for Payload {
    fn from(body: &'static str) -> Self {
        Self::Whole(body.into())
    }
}

impl From<RecvStream> for Payload {
    fn from(body: RecvStream) -> Self {
        Self::Once(Arc::new(Mutex::new(Some(body.into()))))
    }
}

/// Observes the copies of a request.
pub trait Watch: fmt::Debug + Send + Sync {
    /// A copy is sent to a server.
    fn sent(&self, server: ServerId);

    /// The head of a copy's response has arrived, whether or not the copy wins.
    fn received(&self, server: ServerId, head: &ResponseHead);
}

impl Request {
    /// Creates a request. `headers` contains `Host`. `may_repeat` states whether the request may be
    /// sent again if a reused connection turns out to be closed. Set it for idempotent requests.
    pub fn new(
        method: &str,
        target: &str,
        headers: impl HeaderLines,
        body: impl Into<Payload>,
        may_repeat: bool,
    ) -> Result<Self, WriteError> {
        check_request_line(method, target)?;
        let mut text = BytesMut::with_capacity(512);
        text.extend_from_slice(method.as_bytes());
        text.extend_from_slice(target.as_bytes());
        let line = text.len();
        write_lines(&mut text, headers)?;
        let line = text.split_to(line).freeze();
        let (lines, body) = (text.freeze(), body.into());
        let (method_length, is_unary) = (method.len(), false);
        Ok(Self { line, method_length, lines, body, may_repeat, is_unary, watch: None })
    }

    pub(super) fn method(&self) -> &str {
        // It was a `str` before.
        std::str::from_utf8(&self.line[..self.method_length]).unwrap_or_default()
    }

    pub(super) fn target(&self) -> &str {
        std::str::from_utf8(&self.line[self.method_length..]).unwrap_or_default()
    }

    pub(super) fn is_head(&self) -> bool {
        self.method() == "HEAD"
    }

    /// Returns the same request, declared to have a single response of moderate length. A copy can
    /// then lose until its response has ended, unless the response is too long to be held.
    #[must_use]
    pub fn unary(self, is_unary: bool) -> Self {
        Self { is_unary, ..self }
    }

    /// Returns the same request with an observer of its copies.
    #[must_use]
    pub fn watched(self, watch: Option<Arc<dyn Watch>>) -> Self {
        Self { watch, ..self }
    }
}

/// A response.
#[derive(Debug)]
pub struct Response {
    /// Status and header fields.
    pub head: ResponseHead,
    /// The body.
    pub body: Body,
}

/// The body of a response.
#[derive(Debug)]
pub enum Body {
    /// The complete body, and the trailers if there are any.
    Whole(Bytes, Option<Box<HeaderMap>>),
    /// A body that arrives piece by piece.
    Stream(BodyReceiver),
}

impl Response {
    /// Reads the whole body, up to `limit` bytes.
    pub async fn whole(self, limit: usize) -> Result<Bytes, Failure> {
        let mut receiver = match self.body {
            Body::Whole(body, _) if body.len() <= limit => return Ok(body),
            Body::Whole(..) => return Err(Failure::BodyTooLarge(limit)),
            Body::Stream(receiver) => receiver,
        };
        let mut body = BytesMut::new();
        while let Some(piece) = receiver.next().await? {
            if body.len() + piece.len() > limit {
                return Err(Failure::BodyTooLarge(limit));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }
}

/// How the body ended, and its trailers. Kept beside the channel, because a slow client whose channel is
/// full must not hold the slot of a server that is done. A copy that is dropped half-way sets nothing,
/// so its end is never taken for the end of the body.
type BodyEnd = Arc<OnceLock<Result<Option<Box<HeaderMap>>, Failure>>>;

/// Receives the body of a response piece by piece, through a bounded channel.
#[derive(Debug)]
pub struct BodyReceiver {
    data: mpsc::Receiver<Bytes>,
    end: BodyEnd,
}

/// The other end of a [`BodyReceiver`]. Dropped before [`BodySender::end`], it has broken off.
#[derive(Debug)]
pub(super) struct BodySender {
    data: mpsc::Sender<Bytes>,
    end: BodyEnd,
}

/// A channel in which `room` pieces may wait.
pub(super) fn channel(room: usize) -> (BodySender, BodyReceiver) {
    let (sender, receiver) = mpsc::channel(room);
    let end = BodyEnd::default();
    (BodySender { data: sender, end: Arc::clone(&end) }, BodyReceiver { data: receiver, end })
}

impl BodyReceiver {
    /// Returns the next piece, or `None` after the last piece of a complete body. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        match self.data.recv().await {
            Some(piece) => Ok(Some(piece)),
            None => match self.end.get() {
                Some(Ok(_)) => Ok(None),
                Some(Err(why)) => Err(*why),
                None => Err(Failure::Incomplete),
            },
        }
    }

    /// Returns the trailers, after the last piece.
    pub fn trailers(&self) -> Option<&HeaderMap> {
        self.end.get().and_then(|end| end.as_ref().ok()?.as_deref())
    }
}

impl BodySender {
    /// Hands a piece over when there is room; false when the receiver is gone.
    pub(super) async fn send(&self, piece: Bytes) -> bool {
        self.data.send(piece).await.is_ok()
    }

    /// Resolves when the receiver is gone.
    pub(super) async fn closed(&self) {
        self.data.closed().await;
    }

    /// That was all, or the server broke off.
    pub(super) fn end(self, how: Result<Option<Box<HeaderMap>>, Failure>) {
        // It is ours alone to set.
        let _ = self.end.set(how);
    }
}
