//! The limits of a connection: how many bytes it may hold, and how long it may wait.

use std::time::Duration;

/// Upper bound on [`Limits::headers`]. It exists because the parser's scratch table is on the
/// stack.
pub const HEADERS_MAX: usize = 256;

/// Upper bound on [`Limits::head_bytes`]. It exists because positions in a head are stored in 32
/// bits.
pub const HEAD_BYTES_MAX: usize = 16 << 20;

/// Limits of one connection, in bytes unless documented otherwise. Exceeding one is always an error
/// that names the limit, never a silent truncation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a head: the first line, the header fields and the empty line. At most
    /// [`HEAD_BYTES_MAX`]. Also limits how many bytes are read beyond the message that is being
    /// parsed.
    pub head_bytes: usize,
    /// Maximum number of header fields in a head. At most [`HEADERS_MAX`].
    pub headers: usize,
    /// Maximum length of a request body that a server accepts.
    pub body_bytes: usize,
    /// Maximum length of a chunk-size line, including extensions and CRLF.
    pub chunk_line_bytes: usize,
    /// Maximum total length of the chunk extensions in a body.
    pub chunk_extension_bytes: usize,
    /// Maximum total length of the trailer fields in a body.
    pub trailer_bytes: usize,
    /// Maximum number of bytes that a server reads and drops after its last response, before it
    /// closes the connection.
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

/// Timeouts that a server applies to its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Time from the end of a response (or the start of the connection) to the first byte of the
    /// next request.
    pub idle: Duration,
    /// Total time from the first byte of a request to the end of its head. Sending one byte at a
    /// time does not extend it.
    pub head: Duration,
    /// Total time from the end of a head to the end of its body.
    pub body: Duration,
    /// Maximum time that one call may spend writing. A client that does not read delays the call
    /// for at most this time.
    pub write: Duration,
    /// Time for reading and dropping the bytes that a client sends after the last response.
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
