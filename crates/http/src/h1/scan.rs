//! Finds the end of a head, before anything in it is parsed.
//!
//! Only CRLF ends a line. RFC 9112 §2.2 lets a recipient accept a bare LF. If one recipient accepts
//! it and another does not, they find different messages. A bare LF is therefore rejected. The scan
//! reads the bytes strictly in order, so that the verdict does not depend on how they were split
//! into reads.

/// Why a head cannot be cut out of its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanFault {
    /// A CR without LF, an LF without CR, or a line that begins with a space or a tab (obs-fold,
    /// RFC 9112 §5.2).
    Malformed(&'static str),
    /// No end within the limit; `first_line`: not even the end of the first line.
    TooLong {
        /// True if the first line alone reaches the limit.
        first_line: bool,
    },
}

/// The length of the head at the start of `buf`, its empty line included; `None` if more bytes are
/// needed. Looks at `limit` bytes at most.
pub(crate) fn head_end(buf: &[u8], limit: usize) -> Result<Option<usize>, ScanFault> {
    const BARE: ScanFault = ScanFault::Malformed("CR or LF outside of a CRLF");
    let window = &buf[..buf.len().min(limit)];
    let mut line = 0;
    while let Some(offset) = memchr::memchr2(b'\r', b'\n', &window[line..]) {
        let at = line + offset;
        if window[at] == b'\n' {
            return Err(BARE);
        }
        match window.get(at + 1) {
            None => break,
            Some(b'\n') => {}
            Some(_) => return Err(BARE),
        }
        if at == line {
            return Ok(Some(at + 2));
        }
        line = at + 2;
        if matches!(window.get(line), Some(b' ' | b'\t')) {
            return Err(ScanFault::Malformed("a header line begins with white space"));
        }
    }
    if buf.len() >= limit { Err(ScanFault::TooLong { first_line: line == 0 }) } else { Ok(None) }
}
