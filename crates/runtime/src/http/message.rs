//! Requests as they go over the wire, and responses.

use bytes::{Bytes, BytesMut};
use curtail_http1::{BodyLength, Persistence, ResponseHead, WriteError, write_request};

use super::body::BodyReceiver;
use crate::transport::Failure;

/// A request, rendered once for all of its copies.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) wire: Bytes,
    pub(super) is_head: bool,
    pub(super) may_repeat: bool,
}

impl Request {
    /// Renders a request. `may_repeat`: may it be sent again when an old connection turns out to be
    /// closed? True for idempotent requests.
    ///
    /// # Errors
    /// When the method, the target or a header cannot be written as such.
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
        Ok(Self { wire: wire.freeze(), is_head: method == "HEAD", may_repeat })
    }
}

/// A response.
#[derive(Debug)]
pub struct Response {
    /// Status and fields.
    pub head: ResponseHead,
    /// What follows.
    pub body: Body,
}

/// The body of a response.
#[derive(Debug)]
pub enum Body {
    /// All of it.
    Whole(Bytes),
    /// Piece by piece.
    Stream(BodyReceiver),
}

impl Response {
    /// Reads the body to its end, up to `limit` bytes.
    ///
    /// # Errors
    /// [`Failure::Malformed`] beyond the limit, or what the server failed with.
    pub async fn whole(self, limit: usize) -> Result<Bytes, Failure> {
        let mut receiver = match self.body {
            Body::Whole(body) if body.len() <= limit => return Ok(body),
            Body::Whole(_) => return Err(Failure::Malformed),
            Body::Stream(receiver) => receiver,
        };
        let mut body = BytesMut::new();
        while let Some(piece) = receiver.next().await? {
            if body.len() + piece.len() > limit {
                return Err(Failure::Malformed);
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }
}
