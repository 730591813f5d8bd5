//! Reasons why a request has no complete response.

use std::io;
use std::sync::Arc;

use curtail_http::h1::BadResponse;
use rustix::io::Errno;

#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Fault {
    #[error("cannot connect: {0}")]
    Connect(Arc<io::Error>),
    #[error("no response in time{0}")]
    Timeout(Wait),
    #[error("TLS: {0}")]
    Tls(String),
    #[error("the server closed the connection before it responded")]
    Closed,
    #[error("the server closed the connection within its response")]
    IncompleteMessage,
    #[error("the server sent more than one response to a request")]
    Surplus,
    #[error("the server reset the request: {0}")]
    Reset(String),
    /// The server guarantees that it has not processed the request, so it is safe to retry.
    #[error("the server repeatedly refused to process the request ({0})")]
    Unprocessed(String),
    #[error(transparent)]
    Parse(#[from] BadResponse),
    #[error("{0}")]
    Malformed(String),
    /// The server uses a different protocol.
    #[error("{0}")]
    Mismatch(&'static str),
    #[error("the response is longer than {limit} bytes; raise --max-response")]
    TooLarge { limit: u64 },
    #[error("transport: {0}")]
    Io(Arc<io::Error>),
    /// The run ended before the request did.
    #[error("{0} when the run ended")]
    Unfinished(Left),
}

/// The state of a request when the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Left {
    /// A connection had taken the request.
    #[error("in flight")]
    InFlight,
    /// The request was due, but no connection had taken it.
    #[error("due but not sent")]
    Overdue,
}

/// What a request that timed out was waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Wait {
    #[error("")]
    Response,
    #[error(": no server responded at the address, so the connection was never opened")]
    Opening,
    #[error(
        ": the TLS handshake did not finish; if the server does not use TLS, leave out the s of \
         the scheme"
    )]
    Agreeing,
    #[error(": all connections were busy; use more")]
    Connection,
}

impl Fault {
    /// Creates the fault for a failed connection attempt, with advice if a local resource is
    /// exhausted.
    pub(crate) fn connect(error: io::Error) -> Fault {
        let advice = match Errno::from_io_error(&error) {
            Some(Errno::MFILE) => {
                "raise the limit of this process (ulimit -n), or use fewer connections"
            }
            Some(Errno::NFILE) => {
                "the whole machine has too many open files; use fewer connections"
            }
            Some(Errno::ADDRNOTAVAIL) => {
                "no local port is free, because connections are opened faster than the system \
                 releases their ports; let the server keep connections open, or use a lower rate"
            }
            _ => return Fault::Connect(error.into()),
        };
        Fault::Connect(io::Error::new(error.kind(), format!("{error}: {advice}")).into())
    }

    pub(crate) fn of(error: io::Error) -> Fault {
        use io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof,
        };
        match error.kind() {
            // On a UDP socket, this error means that no process listens on the port.
            ConnectionRefused => Fault::connect(error),
            ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof => Fault::Closed,
            _ => Fault::Io(error.into()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greeting {
    Unknown,
    Http1,
    Http2,
    /// A TLS alert.
    Tls,
    Other,
}

const HTTP1: &[u8] = b"HTTP/1.";
/// The start of a TLS alert record (RFC 8446 §5.1).
const ALERT: &[u8] = &[21, 3];
/// The offset of an HTTP/2 frame's type after its 3-byte length (RFC 9113 §4.1). The first frame is
/// SETTINGS (§3.4), type 4.
const TYPE_AT: usize = 3;
const SETTINGS: u8 = 4;

impl Greeting {
    pub(crate) fn of(bytes: &[u8]) -> Greeting {
        for (start, greeting) in [(HTTP1, Greeting::Http1), (ALERT, Greeting::Tls)] {
            let known = bytes.len().min(start.len());
            if bytes[..known] == start[..known] {
                return if known == start.len() { greeting } else { Greeting::Unknown };
            }
        }
        match bytes.get(TYPE_AT) {
            // A SETTINGS frame is short, so the first byte of its length is 0.
            _ if bytes[0] != 0 => Greeting::Other,
            None => Greeting::Unknown,
            Some(&SETTINGS) => Greeting::Http2,
            Some(_) => Greeting::Other,
        }
    }
}

/// The protocol that a client expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Http1,
    Http2,
    Grpc,
}

impl Expected {
    /// Checks the server's first bytes. Returns true once they are known to be acceptable.
    pub(crate) fn check(self, bytes: &[u8]) -> Result<bool, Fault> {
        Err(Fault::Mismatch(match (self, Greeting::of(bytes)) {
            (_, Greeting::Unknown) => return Ok(false),
            (Expected::Http1, Greeting::Http1 | Greeting::Other)
            | (Expected::Http2 | Expected::Grpc, Greeting::Http2) => return Ok(true),
            (Expected::Http1, Greeting::Http2) => {
                "the server sent HTTP/2 in response to HTTP/1; add --http2"
            }
            (Expected::Http2, Greeting::Http1) => {
                "the server sent HTTP/1 in response to HTTP/2; leave out --http2"
            }
            (Expected::Grpc, Greeting::Http1) => {
                "the server sent HTTP/1 in response to HTTP/2, which gRPC needs; is it the right \
                 port?"
            }
            (Expected::Grpc, Greeting::Tls) => {
                "the server uses TLS; write grpcs:// instead of grpc://"
            }
            (_, Greeting::Tls) => "the server uses TLS; write https:// instead of http://",
            (_, Greeting::Other) => "the server does not use HTTP/2; is it the right port?",
        }))
    }
}
