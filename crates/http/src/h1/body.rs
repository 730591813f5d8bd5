//! Decodes the body of a message from the bytes of a connection.

use bytes::{Buf, Bytes, BytesMut};

use crate::h1::framing::Framing;
use crate::h1::limits::Limits;
use crate::h1::token::{is_token, is_value};

/// Why bytes are not a valid chunked body (RFC 9112 §7.1). The connection can no longer be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The chunk size is not a hexadecimal number.
    #[error("the chunk size is not a hexadecimal number")]
    Size,
    /// The chunk size is 2^64 or more.
    #[error("the chunk size is 2^64 or more")]
    SizeOverflow,
    /// A chunk extension does not begin with a semicolon, has a control byte, or has a quoted string
    /// that does not end.
    #[error("malformed chunk extension")]
    Extension,
    /// A CRLF of the chunked coding is missing, or a CR or LF stands alone.
    #[error("CR or LF outside of a CRLF, or no CRLF after a chunk")]
    LineBreak,
    /// A trailer line is not a header field.
    #[error("malformed trailer field")]
    Trailer,
    /// The line is longer than [`Limits::chunk_line_bytes`](crate::h1::Limits::chunk_line_bytes).
    #[error("chunk size line longer than {0} bytes")]
    LineTooLong(usize),
    /// All extensions together are longer than
    /// [`Limits::chunk_extension_bytes`](crate::h1::Limits::chunk_extension_bytes).
    #[error("more than {0} bytes of chunk extensions")]
    ExtensionsTooLong(usize),
    /// All trailer fields together are longer than
    /// [`Limits::trailer_bytes`](crate::h1::Limits::trailer_bytes).
    #[error("more than {0} bytes of trailer fields")]
    TrailersTooLong(usize),
}

/// The result of one step of a [`BodyDecoder`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// Bytes of the body, never empty.
    Data(Bytes),
    /// The buffer needs more bytes before the next step.
    NeedMore,
    /// The body has ended. The rest of the buffer is not part of it.
    End,
}

/// The connection ended in the middle of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection ended in the middle of a body")]
pub struct IncompleteBody;

/// Decodes one body. Call [`BodyDecoder::decode`] with the buffer of the connection until it
/// returns [`Decoded::End`]. When the connection ends, [`BodyDecoder::eof`] checks whether the body
/// may end there.
///
/// The decoder holds no bytes. Chunk extensions and trailer fields are checked and dropped.
#[derive(Debug, Clone)]
pub struct BodyDecoder {
    state: State,
    line_limit: usize,
    extension_limit: usize,
    extension_left: usize,
    trailer_limit: usize,
    trailer_left: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Bytes left of a `Content-Length`.
    Length(u64),
    ChunkLine,
    /// Bytes left of the current chunk.
    ChunkData(u64),
    /// The CRLF after the data of a chunk.
    ChunkEnd,
    Trailers,
    UntilClose,
    Done,
}

impl BodyDecoder {
    /// Creates a decoder for the body of one message.
    pub fn new(framing: Framing, limits: &Limits) -> BodyDecoder {
        let state = match framing {
            Framing::Empty | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::ChunkLine,
            Framing::UntilClose => State::UntilClose,
        };
        BodyDecoder {
            state,
            line_limit: limits.chunk_line_bytes,
            extension_limit: limits.chunk_extension_bytes,
            extension_left: limits.chunk_extension_bytes,
            trailer_limit: limits.trailer_bytes,
            trailer_left: limits.trailer_bytes,
        }
    }

    /// Returns whether the body has ended.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Returns how many of the bytes announced by `Content-Length` or the current chunk have not
    /// arrived yet. The rest of the body is at least this long.
    pub fn announced(&self) -> u64 {
        match self.state {
            State::Length(left) | State::ChunkData(left) => left,
            _ => 0,
        }
    }

    /// Decodes bytes from the start of `buf` and removes them.
    pub fn decode(&mut self, buf: &mut BytesMut) -> Result<Decoded, BodyError> {
        loop {
            match self.state {
                State::Done => return Ok(Decoded::End),
                State::UntilClose => return Ok(take(buf, u64::MAX)),
                State::Length(left) => {
                    let decoded = take(buf, left);
                    self.advance(left, &decoded, State::Length, State::Done);
                    return Ok(decoded);
                }
                State::ChunkData(left) => {
                    let decoded = take(buf, left);
                    self.advance(left, &decoded, State::ChunkData, State::ChunkEnd);
                    // Often the buffer is then empty, which saves the caller a read.
                    if self.state == State::ChunkEnd && buf.starts_with(b"\r\n") {
                        buf.advance(2);
                        self.state = State::ChunkLine;
                    }
                    return Ok(decoded);
                }
                State::ChunkEnd => {
                    let seen = buf.len().min(2);
                    if buf[..seen] != b"\r\n"[..seen] {
                        return Err(BodyError::LineBreak);
                    }
                    if seen < 2 {
                        return Ok(Decoded::NeedMore);
                    }
                    buf.advance(2);
                    self.state = State::ChunkLine;
                }
                State::ChunkLine => match chunk_line(buf, self.line_limit)? {
                    None => return Ok(Decoded::NeedMore),
                    Some(line) => self.start_chunk(buf, line)?,
                },
                State::Trailers => {
                    if !self.drop_trailer(buf)? {
                        return Ok(Decoded::NeedMore);
                    }
                }
            }
        }
    }

    /// Checks whether the body is complete when the connection ends. It is complete if it has
    /// already ended, or if the close of the connection marks its end.
    pub fn eof(&self) -> Result<(), IncompleteBody> {
        match self.state {
            State::Done | State::UntilClose => Ok(()),
            _ => Err(IncompleteBody),
        }
    }

    fn advance(&mut self, left: u64, decoded: &Decoded, more: fn(u64) -> State, end: State) {
        if let Decoded::Data(data) = decoded {
            let left = left - data.len() as u64;
            self.state = if left == 0 { end } else { more(left) };
        }
    }

    fn start_chunk(&mut self, buf: &mut BytesMut, line: ChunkLine) -> Result<(), BodyError> {
        // Many chunks of one byte with long extensions would otherwise cost us far more than the
        // limit on the body says.
        let extension_limit = self.extension_limit;
        self.extension_left = self
            .extension_left
            .checked_sub(line.extension_bytes)
            .ok_or(BodyError::ExtensionsTooLong(extension_limit))?;
        buf.advance(line.bytes);
        self.state = if line.size == 0 { State::Trailers } else { State::ChunkData(line.size) };
        Ok(())
    }

    /// Drops one line of the trailer section; true if it was there.
    fn drop_trailer(&mut self, buf: &mut BytesMut) -> Result<bool, BodyError> {
        let too_long = BodyError::TrailersTooLong(self.trailer_limit);
        // The empty line that ends the body is not counted as a trailer field.
        let most = self.trailer_left.saturating_add(2);
        let window = &buf[..buf.len().min(most)];
        let at = match memchr::memchr2(b'\r', b'\n', window) {
            Some(at) if window[at] == b'\n' => return Err(BodyError::LineBreak),
            Some(at) if at + 1 < window.len() => at,
            _ if window.len() == most => return Err(too_long),
            _ => return Ok(false),
        };
        if window[at + 1] != b'\n' {
            return Err(BodyError::LineBreak);
        }
        if at == 0 {
            self.state = State::Done;
        } else {
            if !is_field_line(&window[..at]) {
                return Err(BodyError::Trailer);
            }
            self.trailer_left = self.trailer_left.checked_sub(at + 2).ok_or(too_long)?;
        }
        buf.advance(at + 2);
        Ok(true)
    }
}

/// Up to `most` bytes from the start of `buf`.
fn take(buf: &mut BytesMut, most: u64) -> Decoded {
    if buf.is_empty() {
        return Decoded::NeedMore;
    }
    let length = usize::try_from(most).map_or(buf.len(), |most| most.min(buf.len()));
    Decoded::Data(buf.split_to(length).freeze())
}

/// A chunk-size line.
#[derive(Clone, Copy)]
struct ChunkLine {
    /// Bytes of data in the chunk.
    size: u64,
    /// Length of the line itself, CRLF included.
    bytes: usize,
    /// Length of its extensions.
    extension_bytes: usize,
}

/// The chunk-size line at the start of `buf`; `None` if more bytes are needed. Looks at `limit` bytes
/// at most.
fn chunk_line(buf: &[u8], limit: usize) -> Result<Option<ChunkLine>, BodyError> {
    // A wrong byte is seen from its first byte, not after a whole line that may never come.
    match buf.first() {
        None => return Ok(None),
        Some(byte) if !byte.is_ascii_hexdigit() => return Err(BodyError::Size),
        Some(_) => {}
    }
    let window = &buf[..buf.len().min(limit)];
    let complete = memchr::memchr2(b'\r', b'\n', window).and_then(|at| {
        // A CR at the very end of the window waits for its LF, within the limit.
        if window[at] == b'\r' && at + 1 == window.len() { None } else { Some(at) }
    });
    let Some(at) = complete else {
        let over = buf.len() >= limit;
        return if over { Err(BodyError::LineTooLong(limit)) } else { Ok(None) };
    };
    if window[at..].get(..2) != Some(b"\r\n") {
        return Err(BodyError::LineBreak);
    }
    let line = &window[..at];
    let digits = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let size = std::str::from_utf8(&line[..digits]).unwrap_or_default();
    let size = u64::from_str_radix(size, 16).map_err(|_| BodyError::SizeOverflow)?;
    check_extension(&line[digits..])?;
    Ok(Some(ChunkLine { size, bytes: at + 2, extension_bytes: at - digits }))
}

/// Nothing, or blanks, a semicolon, and no control byte. What the extension says is ignored.
fn check_extension(extension: &[u8]) -> Result<(), BodyError> {
    let blanks = extension.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    match &extension[blanks..] {
        [] if blanks == 0 => Ok(()),
        [b';', text @ ..] if is_value(text) && quotes_close(text) => Ok(()),
        [] | [b';', ..] => Err(BodyError::Extension),
        // `5x` and `5 5` are no sizes, whatever follows.
        _ => Err(BodyError::Size),
    }
}

/// Returns whether every quoted string ends. A recipient that parses quoted strings could otherwise
/// take the end of the line for a part of one, and read on.
fn quotes_close(text: &[u8]) -> bool {
    let (mut quoted, mut escaped) = (false, false);
    for &byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => {}
        }
    }
    !quoted
}

/// True for `name: value`, with neither obs-fold nor a space before the colon.
fn is_field_line(line: &[u8]) -> bool {
    match memchr::memchr(b':', line) {
        Some(colon) => is_token(&line[..colon]) && is_value(&line[colon + 1..]),
        None => false,
    }
}
