//! Requests and responses, for all versions of HTTP.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{BufMut as _, Bytes, BytesMut};
use curtail_http::h1::{HeaderLines, ResponseHead, WriteError, check_request_line, write_lines};
use curtail_kernel::ServerId;
use http::HeaderMap;

use super::budget::{Budget, Charge};
use super::grpc::Call;
use super::pipe::{BodyReceiver, BodySender, pipe};
use super::tunnel::Tunnel;
use super::upload::Source;
use crate::failure::Failure;

/// A request. It is rendered for each copy where the copy is sent, so clones are cheap and copies
/// may differ.
#[derive(Clone, Debug)]
pub struct Request(Arc<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    /// The method, the target, and `name: value` lines without the fields that frame the message,
    /// one after the other.
    text: BytesMut,
    method_end: usize,
    target_end: usize,
    body: Payload,
    may_repeat: bool,
    commit: Commit,
    call: Option<Call>,
    /// The protocol to which the connection shall switch.
    upgrade: Option<Box<str>>,
    watch: Option<Arc<dyn Watch>>,
    /// Counts the body.
    charge: Option<Arc<Charge>>,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub enum Payload {
    /// A complete body, which every copy can send.
    Whole(Bytes),
    /// A body that is relayed while it arrives, to one server. It is sent again only if a server has
    /// not processed the request.
    Once(Once),
}

/// A body that can be sent once.
#[derive(Clone, Debug)]
pub struct Once {
    source: Arc<Mutex<Option<Source>>>,
    /// The number of bytes, if it is known.
    pub(super) length: Option<u64>,
}

impl Once {
    /// Takes the body. Returns `None` if it was sent before.
    pub(super) fn take(&self) -> Option<Source> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Puts a body back that was not processed.
    pub(super) fn put_back(&self, source: Option<Source>) {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = source;
    }
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

impl Payload {
    /// Returns a body that is relayed while it arrives. `length` is its number of bytes, if known.
    pub fn once(body: impl Into<Source>, length: Option<u64>) -> Self {
        Self::Once(Once { source: Arc::new(Mutex::new(Some(body.into()))), length })
    }

    /// Returns a body that is relayed through a buffer of about `room` bytes, which the budget counts.
    pub fn buffered(room: usize, length: Option<u64>, budget: &Budget) -> Buffered {
        let (sender, receiver) = pipe(room, budget);
        Buffered { sender, payload: Self::once(receiver, length) }
    }

    /// Returns whether the body can be sent any number of times.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Whole(_))
    }
}

/// A body that is relayed through a buffer.
#[derive(Debug)]
pub struct Buffered {
    /// Fills the buffer.
    pub sender: BodySender,
    /// The body of the request.
    pub payload: Payload,
}

/// The point at which a copy wins, if its response is long or has no declared length. Until then,
/// another copy can win. A short response always wins with its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commit {
    /// The head of the response.
    #[default]
    Head,
    /// The first bytes of the body, for servers that send the head before they have done the work.
    FirstChunk,
    /// The end, unless the response is too long to be held.
    End,
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
        let (method_end, target_end) = (method.len(), text.len());
        write_lines(&mut text, headers)?;
        let parts = Parts {
            text,
            method_end,
            target_end,
            body: body.into(),
            may_repeat,
            commit: Commit::Head,
            call: None,
            upgrade: None,
            watch: None,
            charge: None,
        };
        Ok(Self(Arc::new(parts)))
    }

    pub(super) fn method(&self) -> &str {
        // It was a `str` before.
        std::str::from_utf8(&self.0.text[..self.0.method_end]).unwrap_or_default()
    }

    pub(super) fn target(&self) -> &str {
        let target = &self.0.text[self.0.method_end..self.0.target_end];
        std::str::from_utf8(target).unwrap_or_default()
    }

    /// Returns `name: value` lines, without the fields that frame the message.
    pub(super) fn lines(&self) -> &[u8] {
        &self.0.text[self.0.target_end..]
    }

    pub(super) fn body(&self) -> &Payload {
        &self.0.body
    }

    pub(super) fn may_repeat(&self) -> bool {
        self.0.may_repeat
    }

    pub(super) fn commit(&self) -> Commit {
        self.0.commit
    }

    pub(super) fn call(&self) -> Option<&Call> {
        self.0.call.as_ref()
    }

    pub(super) fn upgrade(&self) -> Option<&str> {
        self.0.upgrade.as_deref()
    }

    pub(super) fn watch(&self) -> Option<&dyn Watch> {
        self.0.watch.as_deref()
    }

    pub(super) fn is_head(&self) -> bool {
        &self.0.text[..self.0.method_end] == b"HEAD"
    }

    /// Returns the same request with another point at which a copy wins.
    #[must_use]
    pub fn committing(mut self, commit: Commit) -> Self {
        Arc::make_mut(&mut self.0).commit = commit;
        self
    }

    /// Returns the same request with what its body takes of a budget.
    #[must_use]
    pub fn charged(mut self, charge: Charge) -> Self {
        Arc::make_mut(&mut self.0).charge = Some(Arc::new(charge));
        self
    }

    /// Returns the same request as a call of gRPC.
    #[must_use]
    pub fn call_of_grpc(mut self, call: Call) -> Self {
        Arc::make_mut(&mut self.0).call = Some(call);
        self
    }

    /// Returns the same request, asking the server to switch to another protocol. If the server does,
    /// the response has a [`Body::Tunnel`].
    #[must_use]
    pub fn upgrading(mut self, protocol: &str) -> Self {
        Arc::make_mut(&mut self.0).upgrade = Some(protocol.into());
        self
    }

    /// Returns the same request with an observer of its copies.
    #[must_use]
    pub fn watched(mut self, watch: Arc<dyn Watch>) -> Self {
        Arc::make_mut(&mut self.0).watch = Some(watch);
        self
    }
}

/// A response.
#[derive(Debug)]
pub struct Response {
    /// Status and header fields.
    pub head: ResponseHead,
    /// The body.
    pub body: Body,
    /// Counts a whole body.
    pub charge: Option<Charge>,
}

/// The body of a response.
#[derive(Debug)]
pub enum Body {
    /// The complete body, and the trailers if there are any.
    Whole(Bytes, Option<Box<HeaderMap>>),
    /// A body that arrives piece by piece.
    Stream(BodyReceiver),
    /// The server has switched to the protocol of the request.
    Tunnel(Box<Tunnel>),
}

impl Response {
    /// Reads the whole body, up to `limit` bytes.
    pub async fn whole(self, limit: usize) -> Result<Bytes, Failure> {
        let mut receiver = match self.body {
            Body::Whole(body, _) if body.len() <= limit => return Ok(body),
            Body::Whole(..) => return Err(Failure::BodyTooLarge(limit)),
            Body::Stream(receiver) => receiver,
            Body::Tunnel(_) => return Ok(Bytes::new()),
        };
        let mut body = BytesMut::new();
        while let Some(pieces) = receiver.next().await? {
            if body.len() + pieces.length() > limit {
                return Err(Failure::BodyTooLarge(limit));
            }
            body.put(pieces);
        }
        Ok(body.freeze())
    }
}
