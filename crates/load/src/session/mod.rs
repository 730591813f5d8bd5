//! The client's side of a protocol on one connection, without I/O.
//!
//! | protocol | file | requests at once on a connection |
//! |---|---|---|
//! | HTTP/1.1, memcached, Redis, TCP | `turns.rs`, and where a response ends in `http1.rs`, `memcached.rs`, `redis.rs` | 1 |
//! | HTTP/2, gRPC | `http2/` | as many as the plan and the server allow |
//! | UDP | `udp.rs` | 65,536 |
//!
//! `tls.rs` stands between any of them and the wire.
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

pub(crate) mod fault;
mod http1;
mod http2;
mod memcached;
mod redis;
pub(crate) mod requests;
#[cfg(test)]
mod tests;
mod tls;
pub(crate) mod tls_client;
mod turns;
mod udp;

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::{Bytes, BytesMut};
use curtail_http1::ResponseHead;

use http1::Http1;
use http2::Http2;
use memcached::Memcached;
use redis::Redis;
use turns::{Tcp, Turns};
use udp::Udp;

pub(crate) use tls::Tls;
pub(crate) use udp::LENGTH_BYTES;

use crate::plan::error::PlanError;
use crate::plan::protocol::AnswerEnd;
use crate::plan::{Pace, Plan};
use crate::session::fault::Fault;
use crate::session::tls_client::TlsClient;
use requests::Call;

/// Names a request within its connection: the engine's number, given back with the reply.
pub(crate) type Token = u32;

#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) status: Status,
    /// Only of HTTP/1.1, and only where someone wants to see it.
    pub(crate) head: Option<ResponseHead>,
    pub(crate) body_bytes: u64,
}

impl Whole {
    fn new(status: Status, body_bytes: u64) -> Whole {
        Whole { status, head: None, body_bytes }
    }
}

/// The length of a body so far, and the longest that is taken.
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

    /// What is announced is not waited for where it is too much.
    fn expect(&self, bytes: u64) -> Result<(), Fault> {
        let fits = bytes <= self.limit - self.bytes;
        if fits { Ok(()) } else { Err(Fault::TooLarge { limit: self.limit }) }
    }
}

/// Whether a whole answer is a good one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Status {
    Http(u16),
    /// Another protocol says that all is well.
    Fine,
    /// Another protocol says that it is not, and why.
    Refused(String),
}

const REASON_CHARS: usize = 200;

impl Status {
    pub(crate) fn good(&self) -> bool {
        match self {
            Status::Http(status) => (200..300).contains(status),
            Status::Fine => true,
            Status::Refused(_) => false,
        }
    }

    fn refused(said: &[u8]) -> Status {
        Status::Refused(printable(said))
    }
}

/// What the server said, without what a terminal would obey.
fn printable(said: &[u8]) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    String::from_utf8_lossy(said).chars().take(REASON_CHARS).map(plain).collect()
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Http(status) => write!(f, "status {status}"),
            Status::Fine => f.write_str("no error"),
            Status::Refused(why) => write!(f, "the server said: {why}"),
        }
    }
}

/// What waits to be written. Beyond it the server asks for answers (to pings, to settings) that it does
/// not read.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// What a session has to say: bytes for the server, and what became of requests.
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
            return Err(Fault::Malformed("the server asks for more than it reads".to_owned()));
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) token: Token,
    pub(crate) result: Result<Whole, Fault>,
}

pub(crate) trait Session: Debug + Send {
    fn capacity(&self) -> usize;

    fn send(&mut self, query: usize, token: Token, out: &mut Out);

    /// Takes what it can from the start of `input`, and appends to `out` what the protocol itself
    /// has to say, and the replies that are whole.
    ///
    /// [`Fault`] if the connection is of no further use. It is the fault of all requests that are
    /// outstanding.
    fn receive(&mut self, input: &mut BytesMut, out: &mut Out) -> Result<(), Fault>;

    /// The server has closed; `input` is what was left over. The fault is that of all requests that
    /// are still outstanding.
    fn end(&mut self, out: &mut Out) -> Fault;

    /// The connection failed. A reset inside of an answer is half an answer.
    fn cut(&self, fault: Fault) -> Fault {
        fault
    }

    /// Nobody waits for this request any more. True if the connection can still be used.
    fn abandon(&mut self, token: Token, out: &mut Out) -> bool;

    /// False if the connection is to be closed once nothing is outstanding.
    fn reusable(&self) -> bool;

    /// True while requests are kept back, so that what was written is none of them: TLS is not agreed
    /// on yet.
    fn holds(&self) -> bool {
        false
    }
}

#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) requests: Requests,
    pub(crate) heads: bool,
    pub(crate) body_bytes_max: u64,
    pub(crate) streams: usize,
    pub(crate) datagrams_max: usize,
    /// Sessions of datagrams that were begun.
    pub(crate) begun: AtomicU64,
    pub(crate) answer_end: AnswerEnd,
    pub(crate) tls: Option<TlsClient>,
}

#[derive(Debug)]
pub(crate) enum Requests {
    Http1(Vec<Bytes>),
    Http2(Vec<Call>),
    Memcached(Vec<Bytes>),
    Redis(Vec<Bytes>),
    Tcp(Vec<Bytes>),
    /// What follows the sequence number in each datagram.
    Udp(Vec<Bytes>),
}

impl Sessions {
    /// Makes all ready that a plan asks for; `heads` if someone wants to see those of answers.
    pub(crate) fn prepare(plan: &Plan, heads: bool) -> Result<Sessions, PlanError> {
        let body_bytes_max = plan.body_bytes_max;
        let answer_end = plan.protocol.answer_end.clone();
        let is_tls = plan.target.scheme().is_tls();
        let tls = is_tls.then(|| TlsClient::prepare(plan)).transpose()?;
        let (requests, streams) = (requests::prepare(plan)?, plan.protocol.streams);
        // In a closed loop, a connection asks again once it is answered.
        let datagrams_max = if plan.pace == Pace::Closed { 1 } else { udp::OUTSTANDING_MAX };
        Ok(Sessions {
            requests,
            heads,
            body_bytes_max,
            streams,
            datagrams_max,
            begun: AtomicU64::new(0),
            answer_end,
            tls,
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
            Requests::Http1(_) => Box::new(Turns::new(own, Http1::new(self.heads, body))),
            Requests::Http2(_) => Box::new(Http2::new(own)),
            Requests::Memcached(_) => Box::new(Turns::new(own, Memcached::new(body))),
            Requests::Redis(_) => Box::new(Turns::new(own, Redis::new(body))),
            Requests::Tcp(_) => {
                let end = self.answer_end.clone();
                Box::new(Turns::new(own, Tcp::new(end, body)))
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

    /// The bytes of a request; of HTTP/2, which has other ones on every connection, nothing.
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
