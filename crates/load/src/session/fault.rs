//! Why a request has no whole answer.

use std::fmt;
use std::io;
use std::sync::Arc;

use curtail_http1::BadResponse;
use rustix::io::Errno;

#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Fault {
    #[error("cannot connect: {0}")]
    Connect(Arc<io::Error>),
    #[error("no answer in time{0}")]
    Timeout(Wait),
    #[error("TLS: {0}")]
    Tls(String),
    #[error("the server closed before it answered")]
    Closed,
    #[error("the server closed inside of its answer")]
    HalfAnswer,
    #[error("the server sent more than one answer to a request")]
    Surplus,
    #[error("the server reset the request: {0}")]
    Reset(String),
    /// The server says that it has not looked at the request, and will not: it may be sent again.
    #[error(
        "the server went away before it looked at the request ({0}), and did so again and again"
    )]
    Unprocessed(String),
    #[error(transparent)]
    Garbage(#[from] BadResponse),
    #[error("{0}")]
    Malformed(String),
    /// The server speaks something else.
    #[error("{0}")]
    Mismatch(&'static str),
    #[error("the answer is longer than {limit} bytes; raise --max-response")]
    TooLarge { limit: u64 },
    #[error("transport: {0}")]
    Io(Arc<io::Error>),
}

/// What a request without an answer waited for in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Answer,
    Opening,
    Agreeing,
    Room,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wait::Answer => "",
            Wait::Opening => ": nobody answered at the address, so the connection was never opened",
            Wait::Agreeing => {
                ": TLS was not agreed on; if the server speaks none, leave out the s of the scheme"
            }
            Wait::Room => ": all connections were busy; use more",
        })
    }
}

impl Fault {
    /// No connection, and what to do where it is this machine that has no more to give.
    pub(crate) fn connect(error: io::Error) -> Fault {
        let mend = match Errno::from_io_error(&error) {
            Some(Errno::MFILE) => {
                "raise the limit of this process (ulimit -n), or use fewer connections"
            }
            Some(Errno::NFILE) => {
                "the whole machine has too many open files; use fewer connections"
            }
            Some(Errno::ADDRNOTAVAIL) => {
                "no local port is free, for connections are opened faster than the system takes them \
                 back; let the server keep them open, or use a lower rate"
            }
            _ => return Fault::Connect(error.into()),
        };
        Fault::Connect(io::Error::new(error.kind(), format!("{error}: {mend}")).into())
    }

    pub(crate) fn of(error: io::Error) -> Fault {
        use io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof,
        };
        match error.kind() {
            // Of datagrams: nobody listens at the port.
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
    /// A record of TLS that says no.
    Tls,
    Other,
}

const HTTP1: &[u8] = b"HTTP/1.";
/// An alert of TLS (RFC 8446 §5.1).
const ALERT: &[u8] = &[21, 3];
/// Of a frame (RFC 9113 §4.1): the type, behind a length of 3 bytes; that of SETTINGS, which comes
/// first (§3.4), is 4.
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
            // A frame of SETTINGS is short.
            _ if bytes[0] != 0 => Greeting::Other,
            None => Greeting::Unknown,
            Some(&SETTINGS) => Greeting::Http2,
            Some(_) => Greeting::Other,
        }
    }
}
