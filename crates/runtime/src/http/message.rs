//! Requests and responses. A long response is streamed from its server to a client that may be slow
//! or gone.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use curtail_http::h1::{BodyLength, Persistence, ResponseHead, WriteError, write_request};
use curtail_kernel::ServerId;
use tokio::sync::mpsc;

use super::priority::lowest;
use crate::failure::Failure;

/// A request, rendered once for all of its copies.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) wire: Bytes,
    pub(super) is_head: bool,
    pub(super) may_repeat: bool,
    pub(super) watch: Option<Arc<dyn Watch>>,
}

/// Observes the copies of a request.
pub trait Watch: fmt::Debug + Send + Sync {
    /// A copy is sent to a server.
    fn sent(&self, server: ServerId);

    /// The head of a copy's response has arrived, whether or not the copy wins.
    fn received(&self, server: ServerId, head: &ResponseHead);
}

impl Request {
    /// Renders a request. `may_repeat` states whether the request may be sent again if a reused
    /// connection turns out to be closed. Set it for idempotent requests.
    pub fn new<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        method: &str,
        target: &str,
        headers: impl IntoIterator<Item = (N, V)>,
        body: &[u8],
        may_repeat: bool,
    ) -> Result<Self, WriteError> {
        let mut wire = BytesMut::with_capacity(512 + body.len());
        let length = BodyLength::Known(body.len() as u64);
        write_request(&mut wire, method, target, headers, length, Persistence::Default)?;
        wire.extend_from_slice(body);
        Ok(Self { wire: wire.freeze(), is_head: method == "HEAD", may_repeat, watch: None })
    }

    /// Returns the same request with an observer of its copies.
    #[must_use]
    pub fn watched(self, watch: Option<Arc<dyn Watch>>) -> Self {
        Self { watch, ..self }
    }

    /// The same, at the lowest priority.
    pub(super) fn lowest(self) -> Self {
        Self { wire: lowest(&self.wire), ..self }
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
    /// The complete body.
    Whole(Bytes),
    /// A body that arrives piece by piece.
    Stream(BodyReceiver),
}

impl Response {
    /// Reads the whole body, up to `limit` bytes.
    pub async fn whole(self, limit: usize) -> Result<Bytes, Failure> {
        let mut receiver = match self.body {
            Body::Whole(body) if body.len() <= limit => return Ok(body),
            Body::Whole(_) => return Err(Failure::BodyTooLarge(limit)),
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

/// How the body ended. Said beside the channel, not in it: a slow client whose channel is full must
/// not hold the slot of a server that is done. And a copy that is dropped half-way says nothing, so
/// that its end is never taken for the end of the body.
type BodyEnd = Arc<OnceLock<Result<(), Failure>>>;

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
            None => self.end.get().copied().unwrap_or(Err(Failure::Incomplete)).map(|()| None),
        }
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
    pub(super) fn end(self, how: Result<(), Failure>) {
        // It is ours alone to set.
        let _ = self.end.set(how);
    }
}
