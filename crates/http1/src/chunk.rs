//! The lines of the chunked coding (RFC 9112 §7.1).

use crate::body::BodyError;
use crate::token::{is_token, is_value};

/// A chunk-size line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkLine {
    /// Bytes of data in the chunk.
    pub(crate) size: u64,
    /// Length of the line itself, CRLF included.
    pub(crate) bytes: usize,
    /// Length of its extensions.
    pub(crate) extension_bytes: usize,
}

/// The chunk-size line at the start of `buf`; `None` if more bytes are needed. Looks at `limit` bytes
/// at most.
pub(crate) fn chunk_line(buf: &[u8], limit: usize) -> Result<Option<ChunkLine>, BodyError> {
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
        return if over { Err(BodyError::LineTooLong { limit }) } else { Ok(None) };
    };
    if window[at..].get(..2) != Some(b"\r\n") {
        return Err(BodyError::LineBreak);
    }
    let line = &window[..at];
    let digits = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let size = hexadecimal(&line[..digits])?;
    check_extension(&line[digits..])?;
    Ok(Some(ChunkLine { size, bytes: at + 2, extension_bytes: at - digits }))
}

/// A hexadecimal number below 2^64 from hexadecimal digits.
fn hexadecimal(digits: &[u8]) -> Result<u64, BodyError> {
    digits.iter().try_fold(0u64, |size, &byte| {
        let digit = (byte as char).to_digit(16).ok_or(BodyError::Size)?;
        let shifted = size.checked_mul(16).ok_or(BodyError::SizeOverflow)?;
        Ok(shifted | u64::from(digit))
    })
}

/// Nothing, or blanks, a semicolon, and no control byte. What the extension says is ignored.
fn check_extension(extension: &[u8]) -> Result<(), BodyError> {
    let blanks = extension.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    match &extension[blanks..] {
        [] if blanks == 0 => Ok(()),
        [b';', text @ ..] if is_value(text) => Ok(()),
        [] | [b';', ..] => Err(BodyError::Extension),
        // `5x` and `5 5` are no sizes, whatever follows.
        _ => Err(BodyError::Size),
    }
}

/// True for `name: value`, with neither obs-fold nor a space before the colon.
pub(crate) fn is_field_line(line: &[u8]) -> bool {
    match memchr::memchr(b':', line) {
        Some(colon) => is_token(&line[..colon]) && is_value(&line[colon + 1..]),
        None => false,
    }
}
