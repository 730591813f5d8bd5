//! What a connection may cost: bytes held, and time waited.

use std::time::Duration;

/// More header fields than this are never accepted, whatever [`Limits::headers`] says: the parser's
/// scratch table lives on the stack.
pub const HEADERS_MAX: usize = 256;

/// A head longer than this is never accepted, whatever [`Limits::head_bytes`] says: positions inside
/// a head are kept in 32 bits.
pub const HEAD_BYTES_MAX: usize = 16 << 20;

/// Bounds on one connection, in bytes unless said otherwise. Going over one is always an error that
/// names it, never a silent cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest head: the first line, the header fields and the empty line. At most
    /// [`HEAD_BYTES_MAX`]. Also bounds what is read ahead of the message being parsed.
    pub head_bytes: usize,
    /// Most header fields in one head, as a count. At most [`HEADERS_MAX`].
    pub headers: usize,
    /// Longest request body that a server takes.
    pub body_bytes: usize,
    /// Longest chunk-size line, extensions and CRLF included.
    pub chunk_line_bytes: usize,
    /// Most chunk extensions in one body, all its lines together.
    pub chunk_extension_bytes: usize,
    /// Most trailer fields in one body, all its lines together.
    pub trailer_bytes: usize,
    /// Most that a server reads and drops after its last response, before it lets go of the
    /// connection.
    pub linger_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head_bytes: 16 << 10,
            headers: 100,
            body_bytes: 1 << 20,
            chunk_line_bytes: 256,
            chunk_extension_bytes: 16 << 10,
            trailer_bytes: 8 << 10,
            linger_bytes: 16 << 20,
        }
    }
}

impl Limits {
    /// The effective bound on a head, in bytes.
    pub(crate) fn head_bound(&self) -> usize {
        self.head_bytes.min(HEAD_BYTES_MAX)
    }

    /// The effective bound on the number of header fields.
    pub(crate) fn headers_bound(&self) -> usize {
        self.headers.min(HEADERS_MAX)
    }

    /// Most bytes that a connection holds unparsed. No parser can ask for more input while holding
    /// this much: each of them has a bound that is not above this one.
    pub(crate) fn buffer_bound(&self) -> usize {
        let trailers = self.trailer_bytes.saturating_add(2);
        self.head_bound().max(self.chunk_line_bytes).max(trailers)
    }
}

/// How long a server waits for its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From the end of one response (or the opening) to the first byte of the next request.
    pub idle: Duration,
    /// From the first byte of a request to the end of its head, in total: a client that sends one
    /// byte at a time does not extend it.
    pub head: Duration,
    /// From the end of a head to the end of its body, in total.
    pub body: Duration,
    /// For one call that writes: a client that does not read holds a response no longer than this.
    pub write: Duration,
    /// For reading and dropping what a client still sends after the last response.
    pub linger: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            idle: Duration::from_secs(60),
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            write: Duration::from_secs(30),
            linger: Duration::from_secs(2),
        }
    }
}
