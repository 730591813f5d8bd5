//! The client's side of a protocol on one connection, without I/O.
//!
//! | protocol | file | requests at once on a connection |
//! |---|---|---|
//! | HTTP/1.1 | `http1.rs` | 1 |
//!
//! # One invariant
//!
//! **Every request that was taken ends in exactly one [`Reply`]**, unless the connection ends before
//! or the request is abandoned: the engine then counts it.
//!
//! Methods, in the order they are called:
//!
//! - [`Session::send`] appends a request to what is to be written, while there is
//!   [`capacity`](Session::capacity);
//! - [`Session::receive`] for bytes that came, [`Session::end`] when no more will;
//! - [`Session::abandon`] when nobody waits any longer.

mod http1;

use std::fmt::{self, Debug};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use curtail_http1::ResponseHead;

pub(crate) use http1::Http1;

use crate::fault::Fault;

/// Names a request within its connection: the engine's number, given back with the reply.
pub(crate) type Token = u32;

/// What a whole answer says.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) status: Status,
    /// Only of HTTP/1.1, and only where someone wants to see it.
    pub(crate) head: Option<ResponseHead>,
    pub(crate) body_bytes: u64,
}

/// Whether a whole answer is a good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Of HTTP.
    Http(u16),
}

impl Status {
    pub(crate) fn good(self) -> bool {
        match self {
            Status::Http(status) => (200..300).contains(&status),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Http(status) => write!(f, "status {status}"),
        }
    }
}

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) token: Token,
    pub(crate) result: Result<Whole, Fault>,
}

/// See the head of this file.
pub(crate) trait Session: Debug + Send {
    /// How many more requests it takes now.
    fn capacity(&self) -> usize;

    /// Appends the request that asks `query`.
    fn send(&mut self, query: usize, token: Token, out: &mut BytesMut);

    /// Takes what it can from the start of `input`, and appends to `out` what the protocol itself
    /// has to say.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the connection is of no further use. It is the fault of all requests that are
    /// outstanding.
    fn receive(
        &mut self,
        input: &mut BytesMut,
        out: &mut BytesMut,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Fault>;

    /// The server has closed; `input` is what was left over. The fault is that of all requests that
    /// are still outstanding.
    fn end(&mut self, replies: &mut Vec<Reply>) -> Fault;

    /// The connection failed. A reset inside of an answer is half an answer.
    fn cut(&self, fault: Fault) -> Fault {
        fault
    }

    /// Nobody waits for this request any more. True if the connection can still be used.
    fn abandon(&mut self, token: Token, out: &mut BytesMut) -> bool;

    /// False if the connection is to be closed once nothing is outstanding.
    fn reusable(&self) -> bool;
}

/// Makes the sessions of a run.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// As they are sent, one per query.
    pub(crate) requests: Requests,
    /// Someone wants to see the heads of answers.
    pub(crate) heads: bool,
    /// The longest body of an answer, in bytes. A longer one fails its request.
    pub(crate) body_bytes_max: u64,
}

/// The requests of a run, ready to be sent.
#[derive(Debug)]
pub(crate) enum Requests {
    /// Their bytes.
    Http1(Vec<Bytes>),
}

impl Sessions {
    /// A session for a connection that was just opened.
    pub(crate) fn open(self: &Arc<Sessions>) -> Box<dyn Session> {
        match &self.requests {
            Requests::Http1(_) => Box::new(Http1::new(Arc::clone(self))),
        }
    }

    /// The bytes of a request.
    fn rendered(&self, query: usize) -> &Bytes {
        let Requests::Http1(requests) = &self.requests;
        &requests[query]
    }
}
