//! The client side of a protocol on one connection, without I/O.
//!
//! | protocol | file | maximum number of concurrent requests on a connection |
//! |---|---|---|
//! | HTTP/1.1, memcached, Redis, TCP | `pipelined.rs`, with a scanner for each | 1, or the plan's limit with pipelining |
//! | HTTP/2, gRPC | `http2.rs` | the limit of the plan or the server, whichever is smaller |
//! | UDP | `udp.rs` | 65,536 |
//!
//! `tls.rs` adds TLS to any of these protocols.
//!
//! # One invariant
//!
//! **Each accepted request gets exactly one [`Reply`]**, unless the connection closes first or the
//! request is abandoned. In these cases the engine records its outcome.
//!
//! Methods, in calling order:
//!
//! - [`Session::send`] appends a request to the output, while there is
//!   [`capacity`](Session::capacity);
//! - [`Session::receive`] handles received bytes, and [`Session::end`] handles the peer's close;
//! - [`Session::abandon`] drops a request that has timed out.

pub(crate) mod fault;
mod http1;
mod http2;
mod pipelined;
pub(crate) mod requests;
pub(crate) mod tls;
mod udp;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::{Bytes, BytesMut};
use curtail_http::h1::ResponseHead;

use crate::plan::error::PlanError;
use crate::plan::protocol::Protocol;
use crate::plan::{Pace, Plan};
use crate::session::fault::Fault;
use crate::session::tls::TlsClient;
use http1::Http1;
use http2::Http2;
use pipelined::{Memcached, Pipelined, Redis, Tcp};
use requests::Call;
use udp::Udp;

pub(crate) use udp::LENGTH_BYTES;

/// The number by which the engine identifies a request on its connection. The reply contains it.
pub(crate) type Token = u32;

#[derive(Debug, Clone)]
pub(crate) struct Whole {
    pub(crate) status: Status,
    /// Present only for HTTP/1.1, and only if the caller asked for response heads.
    pub(crate) head: Option<ResponseHead>,
    pub(crate) body_bytes: u64,
}

impl Whole {
    fn new(status: Status, body_bytes: u64) -> Whole {
        Whole { status, head: None, body_bytes }
    }
}

/// The number of bytes of a body that have arrived, and the maximum.
#[derive(Debug)]
pub(crate) struct Body {
    bytes: u64,
    limit: u64,
}

impl Body {
    fn new(limit: u64) -> Body {
        Body { bytes: 0, limit }
    }

    fn add(&mut self, bytes: u64) -> Result<(), Fault> {
        self.expect(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Fails immediately if an announced length exceeds the limit.
    fn expect(&self, bytes: u64) -> Result<(), Fault> {
        let fits = bytes <= self.limit - self.bytes;
        if fits { Ok(()) } else { Err(Fault::TooLarge { limit: self.limit }) }
    }
}

/// The status of a complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Status {
    Http(u16),
    /// Success in a protocol other than HTTP.
    Fine,
    /// An error in a protocol other than HTTP, and its reason.
    Refused(String),
}

/// Text from a peer is truncated to this length.
const TEXT_CHARS: usize = 300;

impl Status {
    pub(crate) fn good(&self) -> bool {
        match self {
            Status::Http(status) => (200..300).contains(status),
            Status::Fine => true,
            Status::Refused(_) => false,
        }
    }

    fn refused(text: &[u8]) -> Status {
        Status::Refused(printable(&String::from_utf8_lossy(text)))
    }
}

/// Returns the start of a peer's text without control characters.
pub(crate) fn printable(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(TEXT_CHARS).map(plain).collect()
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Http(status) => write!(f, "status {status}"),
            Status::Fine => f.write_str("no error"),
            Status::Refused(why) => write!(f, "the server reported: {why}"),
        }
    }
}

/// Maximum length of unwritten output. The output exceeds this length only if the server triggers
/// replies (for example to pings or settings) but does not read them.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// The output of a session: bytes for the server, and replies.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pub(crate) bytes: BytesMut,
    pub(crate) replies: Vec<Reply>,
}

impl Out {
    fn reply(&mut self, token: Token, result: Result<Whole, Fault>) {
        self.replies.push(Reply { token, result });
    }

    fn check(&self) -> Result<(), Fault> {
        if self.bytes.len() > OUTPUT_BYTES_MAX {
            return Err(Fault::Malformed(
                "the server requests more replies than it reads".to_owned(),
            ));
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) token: Token,
    pub(crate) result: Result<Whole, Fault>,
}

pub(crate) trait Session: Send {
    fn capacity(&self) -> usize;

    fn send(&mut self, query: usize, token: Token, out: &mut Out);

    /// Consumes complete elements from the start of `input`. Appends the protocol's own bytes and
    /// complete replies to `out`.
    ///
    /// Returns a [`Fault`] if the connection is unusable. The fault applies to all outstanding
    /// requests.
    fn receive(&mut self, input: &mut BytesMut, out: &mut Out) -> Result<(), Fault>;

    /// Handles the peer's close. The fault applies to all requests that are still outstanding.
    fn end(&mut self, out: &mut Out) -> Fault;

    /// Handles a connection error. A reset in the middle of a response is reported as an incomplete
    /// message.
    fn cut(&self, fault: Fault) -> Fault {
        fault
    }

    /// Drops a request that has timed out. Returns true if the connection is still usable.
    fn abandon(&mut self, token: Token, out: &mut Out) -> bool;

    /// Returns false if the connection must close once no request is outstanding.
    fn reusable(&self) -> bool;

    /// Returns true during the TLS handshake. Until the handshake completes, requests are held
    /// back, so the written bytes contain none of them.
    fn holds(&self) -> bool {
        false
    }
}

#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) requests: Requests,
    pub(crate) heads: bool,
    pub(crate) body_bytes_max: u64,
    pub(crate) protocol: Protocol,
    pub(crate) datagrams_max: usize,
    /// Number of datagram sessions opened.
    pub(crate) begun: AtomicU64,
    pub(crate) tls: Option<TlsClient>,
}

#[derive(Debug)]
pub(crate) enum Requests {
    Http1(Vec<Bytes>),
    Http2(Vec<Call>),
    Memcached(Vec<Bytes>),
    Redis(Vec<Bytes>),
    Tcp(Vec<Bytes>),
    /// The payload after the sequence number of each datagram.
    Udp(Vec<Bytes>),
}

impl Sessions {
    /// Prepares everything that a plan needs. `heads` is true if the caller wants response heads.
    pub(crate) fn prepare(plan: &Plan, heads: bool) -> Result<Sessions, PlanError> {
        let is_tls = plan.target.scheme().is_tls();
        Ok(Sessions {
            requests: requests::prepare(plan)?,
            heads,
            body_bytes_max: plan.body_bytes_max,
            protocol: plan.protocol.clone(),
            // In a closed loop, a connection waits for its response before it sends again.
            datagrams_max: if plan.pace == Pace::Closed { 1 } else { udp::OUTSTANDING_MAX },
            begun: AtomicU64::new(0),
            tls: is_tls.then(|| TlsClient::prepare(plan)).transpose()?,
        })
    }

    pub(crate) fn open(self: &Arc<Sessions>) -> Box<dyn Session> {
        let inner = self.open_plain();
        match &self.tls {
            Some(client) => client.wrap(inner),
            None => inner,
        }
    }

    fn open_plain(self: &Arc<Sessions>) -> Box<dyn Session> {
        let (own, body) = (Arc::clone(self), Body::new(self.body_bytes_max));
        match &self.requests {
            Requests::Http1(_) => Box::new(Pipelined::new(own, Http1::new(self.heads, body))),
            Requests::Http2(_) => Box::new(Http2::new(own)),
            Requests::Memcached(_) => Box::new(Pipelined::new(own, Memcached::new(body))),
            Requests::Redis(_) => Box::new(Pipelined::new(own, Redis::new(body))),
            Requests::Tcp(_) => {
                let end = self.protocol.response_end.clone();
                Box::new(Pipelined::new(own, Tcp::new(end, body)))
            }
            Requests::Udp(_) => Box::new(Udp::new(own)),
        }
    }

    pub(crate) fn datagrams(&self) -> bool {
        matches!(self.requests, Requests::Udp(_))
    }

    fn is_grpc(&self) -> bool {
        matches!(&self.requests, Requests::Http2(calls) if calls.first().is_some_and(|call| call.head.is_grpc))
    }

    /// Returns the bytes of a request. The result is empty for HTTP/2, which encodes requests
    /// separately for each connection.
    fn rendered(&self, query: usize) -> &[u8] {
        match &self.requests {
            Requests::Http1(requests)
            | Requests::Memcached(requests)
            | Requests::Redis(requests)
            | Requests::Tcp(requests)
            | Requests::Udp(requests) => &requests[query],
            Requests::Http2(_) => &[],
        }
    }

    fn call(&self, query: usize) -> Option<&Call> {
        match &self.requests {
            Requests::Http2(calls) => calls.get(query),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
